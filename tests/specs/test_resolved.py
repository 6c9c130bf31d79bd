"""What `explain --resolved` prints leaves nothing to choose, and builds every byte again."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from specs.kernels import SPECS, build_again, build_spec, draft, every_spec
from tilegen.decisions import Cost
from tilegen.ops import ALL_OPS, dispatch
from tilegen.pipeline import Built, build, expand, load, output_texts
from tilegen.planner import plan_spec
from tilegen.report import resolved_text
from tilegen.spec.printing import print_spec

HEAD = "kernel: k\nthreads: 32\n"
BUFFERS = "  X: {scope: global, dtype: float32, shape: [4, 32]}\n  s: {scope: shared, dtype: float32, shape: [4, 32]}\n"
BUFFERS += "  Y: {scope: global, dtype: float32, shape: [4, 32]}\n"


def resolve(built: Built) -> str:
    return resolved_text(built.spec, built.plan)


def build_resolved(text: str, built: Built, folder: Path) -> Built:
    """The resolved text, saved under a name of its own."""
    path = folder / "saved under another name.yaml"
    path.write_text(text, encoding="utf-8")
    return build_again(path, built)


@pytest.mark.sweep(6)
@every_spec
def test_the_same_bytes(path: Path, tmp_path: Path) -> None:
    built = build_spec(path)
    again = build_resolved(resolve(built), built, tmp_path)
    assert again.source == built.source
    assert output_texts(without_search(again)) == output_texts(without_search(built))


def without_search(built: Built) -> Built:
    """The kernel without the record of choices for all of it: where they are pinned, there is none."""
    return replace(built, manifest={**built.manifest, "choices": []})


@pytest.mark.sweep(8)
@every_spec
def test_what_is_resolved_does_not_ask_what_things_cost(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the dearest is taken for the cheapest, every pin still holds; of an op on whole arrays, in its tile ops."""
    built = build_spec(path)
    text = resolve(built)
    if built.spec.whole:
        text = resolve_text(print_spec(expand(built.spec)))
    key = Cost.key.fget  # type: ignore[attr-defined]
    monkeypatch.setattr(Cost, "key", property(lambda cost: tuple(-figure for figure in key(cost))))
    monkeypatch.setattr(dispatch, "_attempt", dispatch._attempt.__wrapped__)
    assert below_the_header(draft(text).source) == below_the_header(built.source)


def below_the_header(source: str) -> str:
    return source.split("\n\n", 1)[1]


@pytest.mark.sweep(7)
@every_spec
def test_nothing_is_left_open_and_nothing_else_changes(path: Path) -> None:
    built = build_spec(path)
    text = resolve(built)
    before, after = path.read_text(encoding="utf-8").splitlines(), text.splitlines()
    assert [line for line in before if line.lstrip().startswith("#")] == [s for s in after if s.lstrip()[:1] == "#"]
    calls = [call for call in find_ops(text) if "variant" in ALL_OPS[call[0]].model.model_fields]
    assert all(fields.get("variant", "auto") != "auto" for _, fields in calls)
    if not built.spec.whole:
        assert [fields["variant"] for _, fields in calls] == [
            o.variant for o in built.plan.operations if "variant" in ALL_OPS[o.op].model.model_fields
        ]
    assert "auto" not in re.sub(r"#.*|^kernel:.*", "", text, flags=re.M)
    assert resolve_text(text) == text, "resolving twice changes nothing"


def find_ops(text: str) -> list[tuple[str, dict[str, Any]]]:
    """Every op of a spec and its fields, as plain YAML has them."""

    def walk(items: list[Any]) -> Iterator[tuple[str, dict[str, Any]]]:
        for item in items:
            if isinstance(item, str):  # a bare 'commit'
                continue
            if "do" in item:
                yield from walk(item["do"])
            else:
                yield from ((name, fields) for name, fields in item.items() if name in ALL_OPS)

    return list(walk(yaml.safe_load(text)["ops"]))


def resolve_text(text: str) -> str:
    spec = load(text)
    return resolved_text(spec, plan_spec(spec))


@pytest.mark.slow
def test_overrides_are_written(tmp_path: Path) -> None:
    path = next(p for p in SPECS if p.stem == "rows_any_size")
    built = build(path, "sm_80", {"M": 96, "ldx": 1000})
    text = resolve(built)
    assert "M: {default: 96, max: 1048576}" in text and "ldx: {default: 1000, max: 8192}" in text
    assert "arch: sm_80\n" in text and "N: {default: 777," in text
    assert output_texts(build_resolved(text, built, tmp_path)) == output_texts(built)
    constant = build(next(p for p in SPECS if p.stem == "transpose_tile"), params={"M": 128})
    assert "params: {M: 128, N: 1000}" in resolve(constant)


@pytest.mark.parametrize(
    "ops",
    [
        "ops:\n  - copy: {src: X, dst: s}\n  - sync: cta\n  - copy: {src: s, dst: Y,}  # last\n",
        "ops:\n  - copy:\n      # all\n      src: X\n      dst: s\n  - sync: cta\n"
        "  - copy:\n      dst: Y\n      src: s\n",
        "ops: [copy: {src: X, dst: s}, sync: cta, {for: {i: 1}, do: [copy: {src: s, dst: Y}]}]\n",
        "ops:\n  - copy: {src: \"X\", dst: 's', variant: auto}\n  - sync: cta\n"
        "  - copy: {src: s, dst: Y, scope: warp}\n",
    ],
    ids=["braces", "lines", "one-line", "quotes"],
)
def test_however_the_yaml_is_written(ops: str) -> None:
    built = build(f"{HEAD}buffers:\n{BUFFERS}{ops}")
    text = resolve(built)
    again = build(text)
    assert again.source == built.source
    assert text.count("variant: gmem_smem") == 2 and "auto" not in text
    assert text.count("scope: cta") + text.count("scope: warp") == 2
    assert "arch: sm_90" in text and text.count("layout: row") == 3
    assert text.count("#") == ops.count("#")
    assert [o.variant for o in again.plan.operations] == ["gmem_smem"] * 2


def test_an_alias_for_ops_that_resolve_differently_is_written_out() -> None:
    text = f"""{HEAD}buffers:
{BUFFERS}  r: {{scope: register, dtype: float32, shape: [4, 32], layout: "S[(4,32):(1,1@laneid)]"}}
ops:
  - copy: &load {{scope: warp, src: "X[0:4]", dst: r}}
  - copy: *load
  - copy: {{scope: warp, src: r, dst: Y}}
"""
    built = build(text)
    assert build(resolve(built)).source == built.source
    alike = resolve(built)
    assert "*load" in alike and alike.count("variant: reg") == 2, "one variant for both: the alias stays"


def test_a_pin_that_costs_more_is_kept_and_said() -> None:
    path = next(p for p in SPECS if p.stem == "permute_sf")
    text = path.read_text(encoding="utf-8").replace('dst: "B[s]"}', 'dst: "B[s]", variant: warp_xor_swizzle}')
    built = build(text)
    assert "variant: warp_xor_swizzle" in resolve(built)
    assert [r.reason for r in built.plan.operations[1].refused] == ["'warp_xor_swizzle' is pinned"] * 2
