"""TG6xx: the command line, the files that it writes, and tilegen's own bugs."""

from __future__ import annotations

from tilegen.spec.rules.rule import Rule

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
    "TG690": Rule("a bug in tilegen", "An exception that no code here expects. Please report it with the spec."),
}
