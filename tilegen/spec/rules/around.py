"""Around a spec. TG0xx: the file and its YAML. TG6xx: commands, what they write, and bugs of tilegen. TG7xx: calls."""

from __future__ import annotations

from tilegen.spec.rules.rule import Rule

FILE_RULES = {
    "TG001": Rule(
        "the file cannot be read",
        "The path does not exist, is a folder, or may not be opened; for '-', standard input is closed.",
    ),
    "TG002": Rule(
        "a character that YAML does not allow",
        "A spec is UTF-8 text. Control characters other than tab and line breaks are not part of YAML.",
    ),
    "TG003": Rule(
        "this is not YAML",
        "The text breaks YAML's own grammar: an open bracket or quote, a tab as indentation, a misplaced ':'.",
        "buffers:\n  A: {scope: shared, dtype: float32, shape: [8]\n",
        "buffers:\n  A: {scope: shared, dtype: float32, shape: [8]}\n",
    ),
    "TG004": Rule(
        "a key is given twice",
        "YAML readers keep one of the two values, and not all the same one. The second is refused here.",
        "arch: sm_90\narch: sm_80\n",
        "arch: sm_90\n",
    ),
    "TG005": Rule(
        "a key that is not a text",
        "Keys are names. YAML reads 3, true or null as something else; often such a key is a piece of a value that "
        "holds a comma or a colon and is not quoted.",
        "params: {3: 8}\n",
        "params: {N: 8}\n",
    ),
    "TG006": Rule(
        "quote this value",
        "Inside of { } and [ ], YAML splits an unquoted value at its commas and ends it at a bracket; everywhere it "
        "splits at ': '. Layouts and regions hold all of these: quote them.",
        "buffers:\n  A: {scope: shared, dtype: float16, shape: [8, 64], layout: Swizzle(3,3,3)}\n",
        'buffers:\n  A: {scope: shared, dtype: float16, shape: [8, 64], layout: "Swizzle(3,3,3)"}\n',
    ),
    "TG007": Rule(
        "a value is missing",
        "A key without a value, null and ~ are all null in YAML, and no key of a spec means anything by it.",
        "arch:\n",
        "arch: sm_90\n",
    ),
    "TG008": Rule(
        "a number with more than one reading",
        "010 is 8 in YAML 1.1 and 10 in YAML 1.2; 0x and 0o forms are read by some and not by others. Numbers are "
        "decimal, without leading zeros, and fit 64 bits.",
        "threads: 032\n",
        "threads: 32\n",
    ),
    "TG009": Rule(
        "a feature of YAML that specs do not use",
        "Merge keys (<<), tags (!name) and several documents in one file hide what a spec says, or differ between "
        "readers.",
        "arch: !!str sm_90\n",
        "arch: sm_90\n",
    ),
    "TG010": Rule(
        "too large to be a spec",
        "A spec has at most 65536 characters, 8000 values (an alias counts as all that it stands for) and 24 levels, "
        "so that reading one takes bounded time and memory.",
        "params: {a: &a [*a]}\n",
        "params: {a: 1}\n",
    ),
    "TG011": Rule(
        "a spec is a mapping of keys", "The top of the file is 'kernel: NAME' and the other keys, not a list or a text."
    ),
    "TG012": Rule(
        "a value that YAML cannot hold",
        "A spec that is a dict, as in tilegen.build({'kernel': 'k', ...}), holds what its YAML would: texts, numbers "
        "(NumPy's too), true, false, None, and lists, tuples and dicts of these; not {'shape': {8, 64}}, a set, or an "
        "array. Write [8, 64], or array.tolist().",
    ),
}


# ---------------------------------------------------------------- TG6xx
COMMAND_RULES = {
    "TG601": Rule(
        "a command line that cannot be read", "`tilegen COMMAND --help` lists the arguments and options of a command."
    ),
    "TG602": Rule(
        "the output cannot be written",
        "The folder or stdout takes no more, or may not be written. The files of the last build are as they were.",
    ),
    "TG603": Rule(
        "two kernels of one name",
        "A kernel is written to <kernel>.cu, <kernel>.h and <kernel>.json, so the specs of one build need kernels of "
        "different names.",
    ),
    "TG604": Rule(
        "a function that --against cannot use",
        "It is named as module:function, takes input arrays (float64) and params by their names, and returns the "
        "outputs by name in a dict, or the only one as an array, each of its buffer's shape.",
    ),
    "TG605": Rule(
        "a configuration that cannot be read",
        "[tool.tilegen] of the nearest pyproject.toml gives options that need not be typed: arch, out, jobs and "
        "format. Each has the meaning and the values of the option of its name (out is -o, from the file's folder on), "
        "for every command that has it. What is typed wins.",
    ),
    "TG606": Rule(
        "a new spec would overwrite a file",
        "`tilegen init NAME` writes NAME.yaml and leaves whatever is there already as it is.",
    ),
    "TG608": Rule(
        "no trace of this kernel",
        "`explain --events --measured FILE` takes a file of `tilegen trace`, of the same kernel: the same spec, arch "
        "and params, built by this tilegen.",
    ),
    "TG610": Rule(
        "nothing to tune, or a param that --over cannot vary",
        "`tilegen tune` tries values of params that are known when a kernel is built (`choices`, or --over), recipes "
        "of a gemm or permute, orders of single ops, and layouts that are auto. A param that the launch gives has one "
        "kernel for all its values.",
    ),
    "TG611": Rule(
        "a file of results that another run has open",
        "Each result is appended as it comes. Two runs on one file would measure the same candidates, and each other.",
    ),
    "TG612": Rule(
        "a budget that fits no candidate",
        "The time was over, or every candidate was refused, before anything was measured. A first candidate takes the "
        "start of the processes, its proof and its compilation.",
    ),
    "TG613": Rule(
        "processes of a scheduler that do not agree",
        "All processes need one version of tilegen, of dask.distributed and of Python. Processes that measure need "
        "GPUs of one kind, one driver and one compiler, since other times could not be compared.",
    ),
    "TG614": Rule(
        "no result of tuning for this spec and device",
        "--tuned and tuned= take results of this spec, whatever its comments and choices are, with the same params "
        "set, from the same GPU, driver, compiler and version of tilegen. What is of another is skipped, and counted.",
    ),
    "TG690": Rule("a bug in tilegen", "An exception that no code here expects. Please report it with the spec."),
}
CALL_RULES = {
    "TG701": Rule(
        "arguments that the kernel does not have",
        "A call gives all global buffers of the spec in its order, or all that are not only written, and runtime "
        "parameters by keyword.",
    ),
    "TG702": Rule(
        "not an array in a GPU's memory",
        "CuPy arrays, torch tensors on a GPU, and anything with __cuda_array_interface__ or __dlpack__ are taken.",
    ),
    "TG703": Rule(
        "another dtype",
        "A call converts nothing. Where a library lacks bfloat16 or float8, unsigned integers of the same size hold "
        "their bits.",
    ),
    "TG704": Rule(
        "another shape",
        "Extents are those of the spec, and runtime parameters have one value in all of them. A layout other than "
        "'row' also takes the physical image: a flat array of as many elements as the layout spans.",
    ),
    "TG705": Rule(
        "other strides",
        "The kernel's addresses follow from the buffer's layout: nothing is copied in secret. Make the array "
        "contiguous, or write its strides as the buffer's layout, with a param for a pitch.",
    ),
    "TG706": Rule(
        "misaligned",
        "Vector accesses need arrays that start at a multiple of 16 bytes, or of the buffer's 'align'. A slice may "
        "start anywhere.",
    ),
    "TG707": Rule(
        "memory that is written twice, or written while it is read",
        "An array that the kernel writes shares an element with another one: threads are not ordered, so the result "
        "would depend on who comes first.",
    ),
    "TG708": Rule("arrays on several GPUs", "A kernel runs on one GPU; all arrays of a call lie in its memory."),
    "TG709": Rule(
        "a runtime parameter that has no value, or none that the kernel takes",
        "Parameters follow from the arrays' shapes, and pitches from their strides, where these leave one value; else "
        "they are passed by keyword. The kernel was proved for multiples of 'multiple_of' up to 'max'.",
    ),
    "TG710": Rule("a grid that CUDA does not launch", "At most 2**31 - 1 CTAs in x, 65535 in y and in z."),
    "TG711": Rule(
        "an output that is read-only or cannot be allocated",
        "What a kernel writes may not be read-only. Outputs that are left out are allocated by CuPy or torch, if an "
        "input is theirs.",
    ),
    "TG712": Rule(
        "an array of another stream",
        "It says, by __cuda_array_interface__, that a stream of its own is filling it. Nothing is synchronised in "
        "secret.",
    ),
    "TG713": Rule(
        "a kernel that must be compiled while a CUDA graph is captured",
        "An operator is compiled by its first call on a GPU, which takes seconds, and CUDA loads no code during a "
        "capture. A call before the capture, with tensors of any size, is enough.",
    ),
    "TG714": Rule(
        "a tensor that requires grad, and no gradient of it",
        "The gradients of an operator are those that the specs or functions given as 'backward' write: dX is that of "
        "X. An operator that changes its tensors has none.",
    ),
    "TG715": Rule(
        "a spec that is no operator of torch, or no backward of it",
        "An operator takes a tensor at least, and the forms of its results follow from its arguments. A backward "
        "takes the forward's tensors and results by their names, and the gradient of a result Y as dY; it writes dX "
        "for the gradient of X, or what a part behind it takes.",
    ),
    "TG716": Rule(
        "an element that breaks what the spec promises of its array",
        "'values', 'distinct' and 'offsets' are promises of the caller's, which places and proofs rest on. With "
        "check_values=True a call looks at them on the device first; one that is false launches nothing.",
    ),
    "TG717": Rule(
        "a check of promises while a CUDA graph is captured",
        "The check waits for the device, which a stream that is being captured does not do. A graph that is replayed "
        "checks nothing either: its arrays are looked at before the capture, and whenever they change.",
    ),
}
