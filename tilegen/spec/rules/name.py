"""TG1xx: names, keys and expressions."""

from __future__ import annotations

from tilegen.spec.rules.rule import Rule

_X = (
    "buffers:\n  X: {scope: global, dtype: float32, shape: [1024]}\n  s: {scope: shared, dtype: float32, shape: [32]}\n"
)

_WHOLE = (
    "buffers:\n"
    "  X: {scope: global, dtype: float32, shape: [64, 32]}\n"
    "  Y: {scope: global, dtype: float32, shape: [32, 64]}\n"
    "ops:\n  - permute: {src: X, dst: Y, axes: [1, 0]}\n"
)

_OVER = (
    "buffers:\n"
    "  a: {{scope: shared, dtype: float32, shape: [8]}}\n"
    "  b: {{scope: shared, dtype: float32, shape: [8]}}\n"
    "  c: {{scope: shared, dtype: float32, shape: [8]}}\n"
    "  out: {{scope: shared, dtype: float32, shape: [16], over: {}}}\n"
)

_SCALED = (
    "grid: {bx: 2}\nthreads: 64\nbuffers:\n"
    "  X: {scope: global, dtype: float32, shape: [2, 64]}\n  Y: {scope: global, dtype: float32, shape: [2, 64]}\n"
    'ops:\n  - elementwise: {dst: "Y[bx]", expr: "x * 2", with: {x: "X[bx]"}}\n'
)


def _multicast(source: str) -> str:
    """Two CTAs that get one region."""
    return (
        "arch: sm_90a\ngrid: {bx: 4}\ncluster: {cbx: 2}\n"
        "buffers:\n  X: {scope: global, dtype: float32, shape: [128]}\n"
        "  s: {scope: shared, dtype: float32, shape: [64]}\n"
        f'ops:\n  - copy: {{src: "{source}", dst: s, variant: tma, barrier: full, multicast: cbx}}\n'
        "  - wait: {barrier: full}\n  - sync: cluster\n"
    )


def _follow(wait: str) -> str:
    """A kernel that overlaps the one before it."""
    return (
        "overlap: previous\nbuffers:\n  X: {scope: global, dtype: float32, shape: [32]}\n"
        "  s: {scope: shared, dtype: float32, shape: [32]}\n"
        f"ops:\n  - {wait}\n  - copy: {{src: X, dst: s}}\n"
    )


def _gather(let: str, row: str) -> str:
    """Rows of an array by their numbers."""
    return (
        'grid: {bx: 8}\nbuffers:\n  ids: {scope: global, dtype: int32, shape: [8], values: "0 : 64"}\n'
        "  W: {scope: global, dtype: float32, shape: [64, 32]}\n  Y: {scope: global, dtype: float32, shape: [8, 32]}\n"
        f'ops:\n{let}  - copy: {{src: {row}, dst: "Y[bx]"}}\n'
    )


NAME_RULES = {
    "TG101": Rule(
        "unknown key",
        "Every key is one of a fixed set; a misspelt one would otherwise be ignored in silence. `tilegen schema` "
        "prints all of them.",
        "thread: 32\n",
        "threads: 32\n",
    ),
    "TG102": Rule(
        "a key is missing",
        "A spec needs kernel and ops, and threads or roles unless it is one op on whole arrays, which brings its own; "
        "a buffer needs scope, dtype and shape, in tensor memory also its layout; a "
        "runtime param its default; an op its operands.",
        _X + "ops:\n  - copy: {src: X}\n",
        _X + 'ops:\n  - copy: {src: "X[0:32]", dst: s}\n',
    ),
    "TG103": Rule(
        "a value of the wrong type",
        'Numbers, texts, lists and mappings are told apart, and nothing is converted: "32" is a text.',
        "arch: 90\n",
        "arch: sm_90\n",
    ),
    "TG104": Rule(
        "unknown axis",
        "A layout places elements on named axes: bx by bz cbx cby cbz tx warpid laneid wgid tid_in_wg wid_in_wg for "
        "threads and CTAs, m (the default) P F Bank TLane TCol for memory.",
        'buffers:\n  r: {scope: register, dtype: float32, shape: [32, 8], layout: "S[(32,8):(1@lane_id,1)]"}\n',
        'buffers:\n  r: {scope: register, dtype: float32, shape: [32, 8], layout: "S[(32,8):(1@laneid,1)]"}\n',
    ),
    "TG105": Rule(
        "unknown name",
        "Expressions know params, the loop variables and lets around them and the axes in scope; regions and views "
        "know the declared buffers; --set knows the params.",
        "params: {N: 64}\ngrid: {bx: n // 64}\n",
        "params: {N: 64}\ngrid: {bx: N // 64}\n",
    ),
    "TG106": Rule(
        "a value out of range",
        "The message states the range. Ops of scope warp need threads to be a multiple of 32, of scope warpgroup of "
        "128; a launch needs at least one CTA in each direction; a loop's step is at least 1.",
        "threads: 2048\n",
        "threads: 1024\n",
    ),
    "TG107": Rule(
        "not a name",
        "Kernel, params, buffers, loop variables and lets become names in the CUDA text: C identifiers that are no "
        "words of C++ or CUDA, no axes and no types.",
        "kernel: threadIdx\n",
        "kernel: transpose\n",
    ),
    "TG108": Rule(
        "a name is taken",
        "Kernel, params, buffers, loop variables and lets share one space of names, and nothing is shadowed: the CUDA "
        "text uses the same names. Loops, and lists, that stand side by side may share names.",
        "params: {X: 8}\n" + _X,
        "params: {N: 8}\n" + _X,
    ),
    "TG109": Rule(
        "not one of the known values",
        "Scopes, dtypes, archs and variants are fixed sets.",
        "buffers:\n  A: {scope: shared, dtype: float, shape: [8]}\n",
        "buffers:\n  A: {scope: shared, dtype: float32, shape: [8]}\n",
    ),
    "TG110": Rule(
        "unknown op",
        "A statement is an op, sync, for, let, when with do, role with do, commit, wait or arrive.",
        _X + 'ops:\n  - copi: {src: "X[0:32]", dst: s}\n',
        _X + 'ops:\n  - copy: {src: "X[0:32]", dst: s}\n',
    ),
    "TG111": Rule(
        "an expression that cannot be read",
        "Expressions are integers, names, + - * // %, ceil(a / b), min(a, b), max(a, b), where(c, a, b), comparisons, "
        "and or not, and parentheses. '/' stands only inside of ceil, where the way that it rounds is said. Inside of "
        "braces a value with a comma is quoted.",
        "params: {N: 100}\ngrid: {bx: N / 64}\n",
        "params: {N: 100}\ngrid: {bx: ceil(N / 64)}\n",
    ),
    "TG112": Rule(
        "an expression whose value cannot be",
        "What is divided is never negative, the divisor is never 0, and no part leaves 63 bits; other parts may be "
        "negative, and where(c, a, b) counts only the arm that is taken. Some places need a constant: extents of "
        "shared and register buffers, threads. Extents of global arrays and "
        "counts of CTAs that depend on params may leave 63 bits where the params have no 'max': no launch has them.",
        "params: {N: 64}\ngrid: {bx: N // (64 - N)}\n",
        "params: {N: 64}\ngrid: {bx: N // 64}\n",
    ),
    "TG113": Rule(
        "a name that exists, but not here",
        "The threads that run an op together must agree on its regions and its condition: an op of scope warp may use"
        " warpid, but not laneid; of scope cta neither. A let may stand wherever the axes may that it depends on, and "
        "what stands under 'when: ..' with 'do:' is run by threads that agree on the condition. The launch is a "
        "function of params only. Buffers are not numbers.",
        _X + 'ops:\n  - copy: {scope: warp, src: "X[laneid*32 : +32]", dst: s}\n',
        _X + 'ops:\n  - copy: {scope: warp, src: "X[warpid*32 : +32]", dst: s}\n',
    ),
    "TG114": Rule(
        "not a statement",
        "An item of ops is one op with its fields in braces, 'sync: SCOPE', 'for: {k: 8}' with 'do:', 'let: {m: E}', "
        "'when: COND' or 'role: NAME' with 'do:', 'commit: QUEUE', 'wait: N' or 'arrive: {barrier: NAME}'.",
        _X + 'ops:\n  - copy: {src: "X[0:32]", dst: s}\n    sync: cta\n',
        _X + 'ops:\n  - copy: {src: "X[0:32]", dst: s}\n  - sync: cta\n',
    ),
    "TG115": Rule(
        "a view that cannot be",
        "A view shares the bytes of another buffer: it stays inside of them, has as many elements unless it has a "
        "layout of its own, and is either a transpose (axes) or another layout, shape or dtype.",
        "buffers:\n  A: {scope: shared, dtype: float32, shape: [4, 32]}\n  B: {view: A, axes: [0, 2]}\n",
        "buffers:\n  A: {scope: shared, dtype: float32, shape: [4, 32]}\n  B: {view: A, axes: [1, 0]}\n",
    ),
    "TG116": Rule(
        "an op on whole arrays is not alone",
        "permute works on whole global arrays: tilegen chooses its tiles, its grid and its threads, so it is the only "
        "op of its kernel and the spec gives no launch.",
        _WHOLE.replace("ops:", "threads: 256\nops:"),
        _WHOLE,
    ),
    "TG117": Rule(
        "a buffer over others that cannot be",
        "'over' lays a shared buffer on the bytes of shared buffers that are not needed any more, neighbours in "
        "memory: buffers lie in the order in which they are declared. What it holds is unwritten until it is written. "
        "So may a buffer of tensor memory lie on the columns of others.",
        _OVER.format("[a, c]"),
        _OVER.format("[a, b]"),
    ),
    "TG118": Rule(
        "roles that do not fit a CTA",
        "Roles lie one after the other, at most 1024 threads with the idle warps between them, in place of 'threads'. "
        "'registers' are of whole warpgroups, together no more than the launch gives: floor8(65536 / threads) each.",
        "arch: sm_90a\nroles:\n  load: {threads: 128, registers: 40}\n  math: {threads: 256, registers: 256}\n",
        "arch: sm_90a\nroles:\n  load: {threads: 128, registers: 40}\n  math: {threads: 256, registers: 232}\n",
    ),
    "TG119": Rule(
        "a statement of other threads than those of its place",
        "In a role, 'role' is all of its threads, and 'cta' would be others too; outside of roles it is the other way "
        "round. Role blocks stand in 'ops' itself, not inside of one another or of a loop.",
        "roles:\n  load: {threads: 32}\nops:\n  - role: load\n    do: [sync: cta]\n",
        "roles:\n  load: {threads: 32}\nops:\n  - role: load\n    do: [sync: role]\n",
    ),
    "TG120": Rule(
        "what CTAs of a cluster do together differs",
        "Of a copy with 'multicast: cbx' every CTA along cbx brings a part, and all get the whole: they make it as "
        "often, of the same region. With cluster {cbx: 2}, bx // 2 is the same in both CTAs, bx and cbx are not. Of a "
        "pair ('cta_group: 2') the even CTA alone starts products and waits at barriers with 'pair: true', and a "
        "product takes the same places in both.",
        _multicast("X[bx*16 : +64]"),
        _multicast("X[bx // 2 * 64 : +64]"),
    ),
    "TG121": Rule(
        "a cluster may end before its CTAs are done with one another",
        "Where 'multicast', 'to' or a pair reach other CTAs, all threads meet before they end: 'sync: cluster' comes "
        "last.",
        _multicast("X[bx // 2 * 64 : +64]").replace("  - sync: cluster\n", ""),
        _multicast("X[bx // 2 * 64 : +64]"),
    ),
    "TG122": Rule(
        "an overlap with the kernel before that does not add up",
        "'overlap: previous' starts a kernel while the one launched before it still runs; 'wait: previous' waits for "
        "the end of that. Every launch must come to the wait, so it stands in 'ops' or in a role, in no loop and under "
        "no condition: a kernel that ended without it would let the next one start too early.",
        _follow("{when: tx < 32, do: [wait: previous]}"),
        _follow("wait: previous"),
    ),
    "TG123": Rule(
        "a param, a buffer, a role or a name of 'with' that nothing uses",
        "It may be left over, or what was to use it is misspelt. A warning.",
        "params: {M: 64, N: 32}\nops:\n  - for: {i: M}\n    do: [sync: cta]\n",
        "params: {M: 64}\nops:\n  - for: {i: M}\n    do: [sync: cta]\n",
    ),
    "TG124": Rule(
        "a warp with fewer than 32 threads",
        "A warp takes as long with a part of its lanes as with all of them. A warning.",
        "threads: 48\nops: [sync: cta]\n",
        "threads: 64\nops: [sync: cta]\n",
    ),
    "TG125": Rule(
        "an input that gets a result",
        "An array that was only read so far is written, with what the kernel has written into another one: the copy "
        "may go the wrong way. A warning.",
        _SCALED + '  - sync: cta\n  - copy: {src: "Y[bx]", dst: "X[bx]"}\n',
        _SCALED,
    ),
    "TG126": Rule(
        "an integer that memory decides",
        "A let reads elements of global integer arrays, and nothing else does: so each load is in sight. The array has "
        "'values' or 'offsets', which say what its elements may be, and the kernel does not write it.",
        _gather("", '"W[ids[bx]]"'),
        _gather('  - let: {id: "ids[bx]"}\n', '"W[id]"'),
    ),
    "TG190": Rule(
        "not yet supported",
        "This is part of the language, but not of this version. Nothing is wrong with its spelling.",
        "buffers:\n  A: {scope: global, dtype: float4_e2m1fn, shape: [128, 8]}\n",
        "buffers:\n  A: {scope: global, dtype: float8_e4m3fn, shape: [128, 8]}\n",
    ),
}
