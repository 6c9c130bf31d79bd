"""What a rule is."""

from __future__ import annotations

from dataclasses import dataclass


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
