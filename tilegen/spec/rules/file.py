"""TG0xx: the file and its YAML. TG6xx: the command line, the files that it writes, and tilegen's own bugs."""

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
    "TG690": Rule("a bug in tilegen", "An exception that no code here expects. Please report it with the spec."),
}
