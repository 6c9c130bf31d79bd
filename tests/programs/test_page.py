"""docs/passes.md: its spec builds and is right, its C++ compiles."""

from __future__ import annotations

import re

import numpy as np
from nvcc.compile import requires_nvcc
from specs.kernels import ROOT
from specs.test_launchers import cuda_includes, run
from text.run import requires_gxx

from tilegen.pipeline import BuiltProgram, build, output_texts
from tilegen.verifying.programs import run_together

PAGE = (ROOT / "docs" / "passes.md").read_text(encoding="utf-8")
(SPEC,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.S)
(CALL,) = re.findall(r"```cpp\n(.*?)```", PAGE, re.S)


def test_the_spec_of_the_page_sums_all():
    built = build(SPEC)
    assert isinstance(built, BuiltProgram)
    assert built.warnings == ()
    assert len(run_together(built, 1, against=lambda X: np.sum(X, keepdims=True).reshape(1))) == 2


def test_a_workspace_is_global_memory_to_the_kernels_that_use_it():
    """The same text below the comments, whoever brings the array."""
    ours, callers = (build(text).source for text in (SPEC, SPEC.replace("scope: workspace", "scope: global")))
    assert re.sub("^//.*\n", "", ours, flags=re.M) == re.sub("^//.*\n", "", callers, flags=re.M)


@requires_nvcc
@requires_gxx
def test_the_call_of_the_page_compiles(tmp_path):
    for name, text in output_texts(build(SPEC)).items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    signature = "cudaError_t call(const float *X, float *Y, int M, void *workspace, cudaStream_t stream)"
    program = f'#include "sum_rows_and_all.h"\n{signature}\n{{\n{CALL}    return error;\n}}\n'
    (tmp_path / "main.cpp").write_text(program)
    run(tmp_path, "g++", "-Wall", "-Wextra", "-Werror", *cuda_includes(tmp_path), "-c", "main.cpp")
