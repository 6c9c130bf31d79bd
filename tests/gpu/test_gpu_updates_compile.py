"""Every form of red, and TMA's reduce of every rank, as the compilers take it for every arch that has it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilegen.arch import ARCHES
from tilegen.arithmetic import UPDATES
from tilegen.dtypes import DTYPES
from tilegen.gpu import Compiler, compile_cubin, find_compilers
from tilegen.plan import find_updates
from tilegen.render.page import templates

HERE = find_compilers()
MAP = "struct alignas(64) TensorMap { unsigned long long opaque[16]; };\n"
HEAD = """extern "C" __global__ void k(const __grid_constant__ TensorMap map, const char *in, char *out) {
  __shared__ __align__(128) char s[16384];
"""


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


@pytest.mark.sweep(4)
@pytest.mark.skipif(not HERE, reason="neither NVRTC nor nvcc is here")
@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("compiler", HERE, ids=str)
def test_every_form_is_text_that_compiles(compiler: Compiler, arch: str) -> None:
    functions, calls = _write_forms(arch)
    assert len(calls) > 10
    source = MAP + "\n".join(functions) + "\n" + HEAD + "\n".join(calls) + "\n}\n"
    assert compile_cubin(source, arch, "k", compilers=[compiler]).image.startswith(b"\x7fELF")


def _write_forms(arch: str) -> tuple[list[str], list[str]]:
    """The functions of the prelude, each once, and a call of each."""
    names = {
        "use": lambda name: name,
        "use_as": lambda *names: names[0],
        "arch": int(arch.removeprefix("sm_").rstrip("a")),
    }
    macros = templates().get_template("prelude.cuh.j2").make_module(names)
    features = ARCHES[arch].features
    functions: list[str] = []
    calls: list[str] = []
    for function in UPDATES:
        for state in ("global", "shared"):
            for form in (f for dtype in DTYPES for f in find_updates(function, dtype, state)):
                if form.feature and form.feature not in features:
                    continue
                name = f"red_{state}_{form.name}"
                macro = getattr(macros, f"red_{function}")
                text = str(macro(name, state, form.text, form.elems, form.count, form.word, form.mark)).strip("\n")
                if text not in functions:
                    functions.append(text)
                    calls.append(_call_red(name, state, form.word, form.count, len(calls)))
        for rank in range(1, 6) if "red_vectors" in features else ():
            name = f"tma_reduce_{function}_{rank}d"
            functions.append(str(getattr(macros, f"tma_reduce_{function}")(name, rank)).strip("\n"))
            calls.append(f"  {name}(s, &map, {', '.join(['0'] * rank)});")
    return functions, calls


def _call_red(name: str, state: str, word: str, count: int, number: int) -> str:
    place = f"{'s' if state == 'shared' else 'out'} + {16 * number}"
    load = f"for (int k = 0; k < {count}; ++k) x[k] = (({word} *)in)[k * 32 + threadIdx.x];"
    return f"  {{ {word} x[{count}]; {load} {name}({place}, x); }}"
