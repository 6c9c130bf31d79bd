"""Files of results: which of them count, what `--tuned` takes, what is refused, and how candidates are listed."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from tuning.pretended import HERE, MOVE

import tilegen
from tests.test_cli import tilegen as run
from tilegen.decisions import Choice
from tilegen.errors import InputError
from tilegen.ops import WHOLE_OPS
from tilegen.pipeline import load
from tilegen.spec.sources import read_source
from tilegen.tuned import Record, choose_best, find_tuned, key_of, line_of, read_records, read_spec
from tilegen.tuning.candidates import Candidate, LeftOut, find_whole, list_assignments, list_choices, vary
from tilegen.tuning.ranking import rank_assignments, sort_candidates
from tilegen.tuning.running import append_to

SPECS = Path(__file__).parents[2] / "specs"
SPEC = MOVE.replace("kernel: move", "kernel: move                # what it is").replace("CHOICES", "[128, 64]")


def record(us: float, T: int, **more: object) -> Record:
    key = key_of(read_spec(SPEC, params={"T": T}))
    problem = key_of(read_spec(SPEC))
    own = Record(key, problem, f"T = {T}", {"params": {"T": T}}, HERE, "measured", us=(us, us, us))
    return replace(own, **more)  # type: ignore[arg-type]


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "move.yaml").write_text(SPEC)
    path = tmp_path / "move.tune.jsonl"
    with append_to(path) as keep:
        keep(record(20.0, 128))
        keep(record(10.0, 64))
    return path


# ---------------------------------------------------------------- what counts
def test_build_takes_the_best_and_says_what_it_took(file: Path) -> None:
    plain = run("build", "move.yaml", "-o", "-")
    tuned = run("build", "move.yaml", "-o", "-", "--tuned", str(file))
    assert "move.yaml: tuned, T = 64, 10.00 us when measured" in tuned.stderr
    assert "128 threads" in plain.stdout and "64 threads" in tuned.stdout
    by_hand = run("build", "move.yaml", "-o", "-", "--set", "T=64")
    assert by_hand.stdout == tuned.stdout


def test_results_of_others_are_skipped_and_counted(file: Path) -> None:
    elsewhere = replace(HERE, device="another")
    with append_to(file) as keep:
        keep(record(1.0, 64, environment=elsewhere))
        keep(record(1.0, 64, problem="of another spec"))
    with file.open("a") as torn:
        torn.write('{"tilegen_tune": 1, "key": "abc')
    found = find_tuned(SPEC, file, here=HERE)
    assert found.record.us == (10.0, 10.0, 10.0) and found.record.name == "T = 64"
    assert str(found.skipped) == (
        f"1 result of another spec, 1 result of another device or version ({elsewhere}), 1 result that cannot be read"
    )
    with pytest.raises(InputError, match=r"TG614: .* has results of 2 devices or versions, and there is no GPU here"):
        find_tuned(SPEC, file)


@pytest.mark.parametrize("field", ["device", "driver", "compiler", "generator"])
def test_another_device_or_version_has_nothing_here(file: Path, field: str) -> None:
    with pytest.raises(InputError, match=r"TG614: .*: 2 results of another device or version"):
        find_tuned(SPEC, file, here=replace(HERE, **{field: "9.9"}))


def test_another_size_has_nothing_here(file: Path) -> None:
    done = run("build", "move.yaml", "-o", "-", "--tuned", str(file), "--set", "N=1024")
    assert done.exit_code == 2 and "TG614" in done.stderr and "2 results of other specs" in done.stderr


def test_comments_and_choices_change_no_key() -> None:
    other = SPEC.replace("# what it is", "").replace("[128, 64]", "[128, 32, 64]")
    assert key_of(read_spec(other)) == key_of(read_spec(SPEC))
    assert key_of(read_spec(SPEC, params={"T": 64})) != key_of(read_spec(SPEC))
    assert key_of(read_spec(SPEC, params={"M": 65})) != key_of(read_spec(SPEC))


@given(st.lists(st.tuples(st.floats(0.5, 1e4), st.integers(0, 2)), min_size=1, max_size=8))
def test_the_best_is_of_the_last_round_of_all(drawn: list[tuple[float, int]]) -> None:
    records = [record(us, 64, final=final, key=str(k)) for k, (us, final) in enumerate(drawn)]
    last = max(final for _, final in drawn)
    best = choose_best(records)
    assert best is not None and best.median_us == min(us for us, final in drawn if final == last)
    assert choose_best([replace(r, outcome="hung", us=None) for r in records]) is None


def test_a_line_that_was_cut_off_costs_no_other(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    whole = line_of(record(3.0, 64))
    for cut in range(1, len(whole) - 1):
        path.write_text(whole[:cut])
        with append_to(path) as keep:
            keep(record(4.0, 128))
        found = read_records(path)
        assert [r.name for r in found.records] == ["T = 128"] and found.unread == 1


@pytest.mark.parametrize("line", ["3", "[]", "null", '{"tilegen_tune": 2}', '{"tilegen_tune": 1, "us": [1]}', "\x00"])
def test_a_line_that_is_no_record_is_counted(tmp_path: Path, line: str) -> None:
    (tmp_path / "a.jsonl").write_text(line + "\n" + line_of(record(3.0, 64)))
    found = read_records(tmp_path / "a.jsonl")
    assert (len(found.records), found.unread) == (1, 1)


# ---------------------------------------------------------------- bad input
@pytest.mark.parametrize("words, code, said", [
    (["--over", "M=64,128"], "TG610", "'M' is given at the launch"),
    (["--over", "TT=64,128"], "TG610", "did you mean 'T'?"),
    (["--over", "T"], "", "is not NAME=N,N,.."),
    (["--over", "T=1", "--over", "T=2"], "", "T is named twice"),
    (["--budget", "5x"], "", "is not a time, such as 90s"),
    (["--set", "T=96"], "TG106", "none of its choices"),
])  # fmt: skip
def test_bad_options(file: Path, words: list[str], code: str, said: str) -> None:
    done = run("tune", "move.yaml", *words)
    assert done.exit_code in (1, 2) and code in done.stderr and said in done.stderr


def test_nothing_to_choose(file: Path) -> None:
    Path("one.yaml").write_text(SPEC.replace("{choices: [128, 64]}", "128").replace("[M, N]", "[M, 32]"))
    Path("one.yaml").write_text(Path("one.yaml").read_text().replace("N: 512", "N: 32").replace("T: 128", "T: 32"))
    done = run("tune", "one.yaml")
    assert done.exit_code == 2 and "TG610" in done.stderr and "has nothing to choose" in done.stderr
    assert not list(Path().glob("*.jsonl.lock"))


# ---------------------------------------------------------------- candidates
def rank(path: Path, **over: tuple[int, ...]) -> list[Candidate | LeftOut]:
    source = read_source(str(path))
    choices = list_choices(read_spec(source), over)
    return rank_assignments(source, None, {}, list_assignments(choices))


@given(st.dictionaries(st.sampled_from("ABCD"), st.lists(st.integers(1, 9), min_size=1, max_size=4, unique=True)))
def test_assignments_are_all_of_them_nearest_first(choices: dict[str, list[int]]) -> None:
    found = list_assignments(choices)
    assert len({json.dumps(one, sort_keys=True) for one in found}) == len(found)
    far = [sum(choices[n].index(v) for n, v in one.items()) for one in found]
    assert far == sorted(far)
    count = 1
    for values in choices.values():
        count *= len(values)
    assert len(found) == count


@pytest.mark.parametrize("name", ["gemm", "gemm_f32", "permute_0213"])
def test_each_candidate_of_a_chooser_is_what_its_text_builds(name: str) -> None:
    """A few of them, all over the list: what the chooser takes of the text is what the candidate says."""
    ranked = [one for one in rank(SPECS / f"{name}.yaml") if isinstance(one, Candidate)]
    assert len(ranked) > 3 and [c.estimate_us for c in ranked] == sorted(c.estimate_us or 0 for c in ranked)
    for candidate in ranked[:: max(1, len(ranked) // 4)]:
        spec = read_spec(candidate.text)
        call = find_whole(spec)  # type: ignore[arg-type]
        assert call is not None
        taken = WHOLE_OPS[call.op].pins(call, load(candidate.text))  # type: ignore[arg-type]
        (_, fields), *_ = candidate.pins.ops
        assert {n: v for n, v in taken.items() if n in fields} == {n: fields[n] for n in taken if n in fields}


def test_what_is_refused_is_left_out_with_its_message() -> None:
    path = SPECS / "gemm_choices.yaml"
    few = rank(path, M=(4096,), BM=(128,), G=(8,), BN=(128,), BK=(32,), ST=(4,), WM=(2, 64), WN=(2,))
    assert [type(one) for one in few] == [Candidate, LeftOut]
    assert isinstance(few[1], LeftOut) and "WM = 64" in few[1].name and "1024" in few[1].why


def test_the_written_best_is_a_spec_with_its_comments(file: Path) -> None:
    found = find_tuned(read_source("move.yaml"), file, here=HERE)
    assert found.source.text == SPEC.replace("[128, 64]", "[64, 128]")
    assert yaml.safe_load(found.source.text)["params"]["T"] == {"choices": [64, 128]}
    assert tilegen.build(found.source.text).plan.threads == 64


def test_variations_differ_in_one_layout_or_order_and_build() -> None:
    (candidate,) = (c for c in rank(SPECS / "gemm_choices.yaml", **{n: (v,) for n, v in FIRST.items()}))
    assert isinstance(candidate, Candidate)
    varied = vary(candidate)
    assert varied and len({c.key for c in varied} | {candidate.key}) == len(varied) + 1
    for one in varied[:2]:
        assert len(one.pins.layouts) == 1 and one.name.startswith(f"{candidate.name}; ")
        (name, text), *_ = one.pins.layouts.items()
        picked = {c.question: c.picked for c in load(candidate.text).choices if isinstance(c, Choice)}
        assert picked[f"layout of {name}"] != text and re.search(rf"{name}: .*layout: \"?", one.text.text)


FIRST = {"BM": 128, "BN": 128, "BK": 32, "ST": 4, "WM": 2, "WN": 2, "G": 8}


def test_the_plain_build_comes_first_then_the_model() -> None:
    listed = [c for c in rank(SPECS / "gemm.yaml") if isinstance(c, Candidate)][::-1]
    ordered = sort_candidates(listed, listed[2].key)
    assert ordered[0] is listed[2] and ordered[1].estimate_us == min(c.estimate_us or 0 for c in listed)


def test_appending_reaches_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    with append_to(tmp_path / "new" / "a.jsonl") as keep:
        keep(record(1.0, 64))
        assert len(synced) == 1 and len(read_records(tmp_path / "new" / "a.jsonl").records) == 1
