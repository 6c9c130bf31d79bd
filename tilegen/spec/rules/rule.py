"""What a rule is; and where the errors are seen that no piece of a spec shows, and what to do then."""

from __future__ import annotations

from dataclasses import dataclass

_OWN = "`tilegen build SPEC` of a spec that shows a bug of tilegen. Report it, with the spec"


@dataclass(frozen=True)
class Rule:
    """What an error code means: for ``tilegen rule CODE``.

    The examples are pieces of a spec; keys that they leave out are as in ``kernel: k``, ``threads: 32``, ``ops: []``.
    ``seen``: for what no piece of a spec shows, where it is seen and what to do then.
    """

    title: str
    explanation: str
    bad: str = ""
    good: str = ""
    seen: str = ""


def format_rule(code: str, rule: Rule) -> str:
    """A rule as it is printed.

    >>> print(format_rule("TG999", Rule("a title", "Why.", "a: 1", "a: 2")))
    TG999: a title
    <BLANKLINE>
    Why.
    <BLANKLINE>
    wrong:
        a: 1
    <BLANKLINE>
    right:
        a: 2
    """
    parts = [f"{code}: {rule.title}", rule.explanation]
    if rule.seen:
        parts.append(f"seen: {rule.seen}")
    for name, example in (("wrong", rule.bad), ("right", rule.good)):
        if example:
            parts.append("\n".join([f"{name}:", *(f"    {line}".rstrip() for line in example.splitlines())]))
    return "\n\n".join(parts)


def _again(code: str = "") -> str:
    """Of what the run of the plan looks at again, after the loader has refused specs that say it."""
    before = f"A spec that says this has {code} before. " if code else ""
    return f"{before}Here it is tilegen's plan that does it, in a run in NumPy: a bug. Report it, with the spec."


SEEN = {
    "TG001": "`tilegen build nothing.yaml`. Name a file that is there; `tilegen init nothing` writes one.",
    "TG002": "A form feed that was pasted along with a line. Remove the character at the place that is named.",
    "TG011": "`tilegen build -` with nothing on standard input. `tilegen init` writes a spec to begin with.",
    "TG012": "`tilegen.build({'kernel': object()})`. Values are texts, numbers, truth values, lists and dicts.",
    "TG401": _again("TG207"),
    "TG402": _again(),
    "TG405": _again("TG417"),
    "TG406": f"A spec that says this has TG113 before. {_OWN}.",
    "TG407": "`copy: {src: 'X[i]', dst: 'r[i]'}` in `for: {i: 4}`, r in registers. Write `unroll: true` beside `do`.",
    "TG409": _again(),
    "TG410": _again(),
    "TG411": f"{_OWN}.",
    "TG412": f"{_OWN}.",
    "TG413": '`wait: {barrier: "full[k % 3]"}` before the copies that fill it. `explain --events` draws who waits.',
    "TG414": "A begin of several runtime params. Give each its 'max', and the copy `edge: clip`; else report it.",
    "TG415": "A width that was pinned on rows of a runtime pitch. Promise `multiple_of: 4` on the param.",
    "TG416": _again("TG207"),
    "TG419": "An output that a million boxes cover in no order. Let neighbouring CTAs write neighbouring boxes.",
    "TG420": f"{_OWN}.",
    "TG421": f"`tilegen verify SPEC` on a GPU. {_OWN.partition('. ')[2]}.",
    "TG425": "More than a million arrivals or bytes in a phase. Arrive once a role, copy less at once.",
    "TG427": f"{_OWN}.",
    "TG428": "`tilegen verify SPEC --against mine:softmax`, with another scale there. Compare the two formulas.",
    "TG435": "Found where TG121 has not found it: a bug of tilegen. Report it, with the spec.",
    "TG438": "`elementwise` on the `c` of an `mma` with `async: true`, before its wait. Put it behind the wait.",
    "TG439": f"{_OWN}.",
    "TG491": "`tilegen verify SPEC` on a GPU that is broken. `tilegen doctor` tries it; else report it.",
    "TG492": f"`tilegen verify SPEC` on a GPU. {_OWN.partition('. ')[2]}.",
    "TG493": "`tilegen build --compile` of a role whose accumulators need more `registers` than it says. Give it more.",
    "TG494": f"`tilegen verify SPEC --device ptx`. {_OWN.partition('. ')[2]}.",
    "TG495": "A kernel whose stamps say another way than the interpreter took. Report it, with the spec.",
    "TG496": "A wait that ended before what it waits for began. Report it, with the spec and the trace.",
    "TG497": "`tilegen trace` of a kernel that only fills registers. Trace one that copies, multiplies or waits.",
    "TG501": "`tilegen build --compile` on a machine without nvcc and NVRTC. `pip install 'tilegen[compile]'`.",
    "TG502": "`tilegen verify --device gpu` on a machine without a GPU. `--device cpu` runs the plan in NumPy.",
    "TG503": "`tilegen verify --device gpu` of a spec for sm_90a on an A100. `--arch sm_80`, where the spec allows it.",
    "TG504": "A call of a kernel with TMA under a driver of CUDA 11. Install a newer driver.",
    "TG505": "`tilegen verify specs/*.yaml` in 16 processes and 16 GB. `-j 4` takes a quarter of the memory.",
    "TG506": "`tilegen.torch_op(..)` in an environment without PyTorch. `pip install torch`.",
    "TG507": "`tilegen tune` in an environment without it. `pip install 'tilegen[tune]'`.",
    "TG601": "`--outptu x` behind `tilegen build`. `tilegen build --help` has the names.",
    "TG602": "`tilegen build SPEC -o README.md`, a file. Name a folder that may be written.",
    "TG603": "`tilegen build a.yaml b.yaml`, both with `kernel: gemm`. Rename one, or write to two folders.",
    "TG604": "`tilegen verify SPEC --against softmax`. Write `--against my_meanings:softmax`.",
    "TG605": '`arhc = "sm_90"` below `[tool.tilegen]`. The error names the line and the nearest key, `arch`.',
    "TG606": "`tilegen init` twice in one folder. Give the second spec a name of its own.",
    "TG608": "`--measured` with the trace of a spec that was changed since. Trace it again.",
    "TG610": "`tilegen tune SPEC --over M=64,128` of a runtime `M`. `--set M=64` measures at another size.",
    "TG611": "`tilegen tune SPEC` in two terminals. Wait for the first, or name another file by `-o`.",
    "TG612": "`tilegen tune SPEC --budget 1s`. `--budget 5m`, or leave it out.",
    "TG613": "`dask worker` in an environment with another tilegen. Install one version on all machines.",
    "TG614": "`tilegen build SPEC --tuned FILE` with another `--set` than in `tilegen tune`. Tune that size too.",
    "TG690": f"{_OWN}; `TILEGEN_DEBUG=1` prints the traceback.",
    "TG701": "`kernel(x)` of a kernel of three inputs. Pass all arrays in the order of the spec's global buffers.",
    "TG702": "A NumPy array. `cupy.asarray(x)` or `torch.as_tensor(x, device='cuda')` brings it to the GPU.",
    "TG703": "A float64 array for a float32 buffer. `x.astype('float32')`, or another dtype in the spec.",
    "TG704": "A 128 x 64 array where the spec says 64 x 128. Build with other params, or pass another array.",
    "TG705": "A slice of columns, `x[:, :128]`. `cupy.ascontiguousarray(x)`, or a layout with a pitch in the spec.",
    "TG706": "`x[1:]` of float32. Copy it, or write `align: 4` on the buffer, which narrows its accesses.",
    "TG707": "`kernel(x, x)`, where the second is written. Give the output memory of its own.",
    "TG708": "One array on cuda:0 and another on cuda:1. Move one of them.",
    "TG709": "`kernel(x, y, M=7)` of a param with `multiple_of: 4`. Pass a value that the spec allows.",
    "TG710": "70,000 rows by `grid: {by: M}`. Put the longest dimension on bx.",
    "TG711": "A read-only array as an output. Pass one that may be written.",
    "TG712": "An array that another library is still filling. Synchronise its stream first.",
    "TG713": "The first call of an operator inside of `torch.cuda.graph(g)`. Call it once before.",
    "TG714": "A module's weights under an operator without a backward. `torch.no_grad()`, or `backward=`.",
    "TG715": "A backward whose buffer is `dx` where the forward has `X`. Name it `dX`.",
    "TG716": '`ids[7]` is 1000 where `values: "0 : V"` is promised and V is 1000. Correct the array, or the promise.',
    "TG717": "`compile(.., check_values=True)` in `torch.cuda.graph(g)`. `kernel.check(x, y)` before, and "
    "`kernel.check_values = False` in it.",
}
