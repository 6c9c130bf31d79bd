"""Every spec as its page has it: lines and addresses of ops and accesses, steps, and its example in the package."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from specs.kernels import SPECS, build_spec, every_spec

from tilegen.report import explain_access
from tilegen.spec.outline import launch_of
from tilegen.viewing import link_op, pack_numbers, page_of, unpack_numbers, write_examples, write_page
from tilegen.viewing.page import EXAMPLES

MOST_BYTES = 400_000
_UPDATES = os.environ.get("UPDATE_GOLDEN") == "1"


@pytest.fixture(scope="module")
def kept() -> dict[str, dict[str, Any]]:
    return {example["name"]: example for example in json.loads(EXAMPLES.read_text(encoding="utf-8"))}


@pytest.mark.sweep(3)
@every_spec
def test_a_spec_on_its_page(path: Path, kept: dict[str, dict[str, Any]]) -> None:
    built = build_spec(path)
    page = page_of(built.spec, built.plan, launch_of(built.spec), built.source)
    assert len(write_page(page).encode()) < MOST_BYTES
    data, [example] = page.spec, page.examples
    assert data is not None and data["ops"] and data["cuda"] == built.source.splitlines()
    _check_lines(data, {b.name: b.root for b in built.spec.buffers})
    _check_steps(data)
    numbers = [access["key"] for op in data["ops"] for access in op["accesses"]]
    assert numbers == [f"a{n}" for n in range(1, len(example["accesses"]) + 1)]
    launch = launch_of(built.spec)
    for number, access in enumerate(example["accesses"], 1):
        seen = explain_access(built.plan, launch, number)
        assert access["op"] == seen["op"] and access["buffer"] == seen["buffer"]
        found = unpack_numbers(access.get("at", []))
        chunks = [byte for first, size in seen.get("runs", ()) for byte in range(first, first + size, 16)]
        assert found == (chunks if "rows" in seen else seen["offsets"])
        if chunks:  # as many bytes as the matrix or the box has, each once
            assert len(set(chunks)) * 16 == seen["rows"] * seen["width_bytes"]
    if _UPDATES:
        kept[path.stem] = example
        EXAMPLES.write_text(write_examples(kept), encoding="utf-8", newline="\n")
    assert kept[path.stem] == json.loads(json.dumps(example)), "the spec shows otherwise: look, then `make golden`"


def test_no_example_without_a_spec(kept: dict[str, dict[str, Any]]) -> None:
    names = {path.stem for path in SPECS}
    if _UPDATES:
        kept = {name: example for name, example in kept.items() if name in names}
        EXAMPLES.write_text(write_examples(kept), encoding="utf-8", newline="\n")
    assert set(kept) == names and EXAMPLES.read_text(encoding="utf-8") == write_examples(kept)


def _check_lines(data: dict[str, Any], roots: dict[str, str]) -> None:
    """Each op has its calls, each access the expression of its address, in the lines of its op."""
    for k, op in enumerate(data["ops"]):
        if data["expanded"]:
            assert f"- {op['text'].split()[0]}:" in data["expanded"][data["expanded_lines"][k] - 1]
        if not op["code"]["calls"]:  # the condition of the op holds nowhere, and the kernel is printed without it
            said = [line for line in data["cuda"] if line.endswith(f"// {op['text']}")]
            assert not op["accesses"] and not said, op["text"]
            continue
        assert op["code"]["lines"], op["text"]
        spans = op["code"]["spans"]
        for access in op["accesses"]:
            own = [span for span in spans if span["buffer"] == access["buffer"]]
            assert own, (op["text"], access["buffer"])
            texts = [data["cuda"][span["line"]][span["start"] : span["end"]] for span in own]
            assert "".join(texts).count("[") == "".join(texts).count("]")
            opening = True  # a folded expression goes on in the next span
            for text in texts:
                name = text.split("[")[0].split("_map")[0]
                assert not opening or roots.get(name, name) == roots.get(access["buffer"], access["buffer"]), text
                opening = text.endswith("]") or "[" not in text


def _check_steps(data: dict[str, Any]) -> None:
    """Every op stands once among the statements, and what it touches in memory is what its accesses touch."""
    steps = [step for step in data["steps"] if step["op"]]
    assert [step["op"] for step in steps] == list(range(1, len(data["ops"]) + 1))
    memories = {m["name"]: m for m in data["memories"]}
    for step, op in zip(steps, data["ops"], strict=True):
        named = {memories[name]["root"] for name in step["touches"]}
        assert named >= {memories[a["buffer"]]["root"] for a in op["accesses"] if a["buffer"] in memories}, op["text"]
    for memory in memories.values():
        assert bool(memory["at"]) == (memory["scope"] in ("shared", "tmem")), memory


def test_two_ops_of_one_text_share_their_lines() -> None:
    source = ["    go(A);  // fill A", "    go(A);  // fill A"]
    assert link_op(source, "fill A", {"A": ["A"]}).calls == (0, 1)


@pytest.mark.parametrize("numbers", [[], [3], [1, 2, 3], [0] * 8, [-1, -1, -1, -1], [7, 3, 5, 1], [0, 1, 1, 2]])
def test_packed_numbers_are_the_same(numbers: list[int]) -> None:
    assert unpack_numbers(pack_numbers(numbers)) == numbers
