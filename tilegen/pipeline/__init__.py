"""Where the stages meet: load -> choose layouts -> plan -> prove -> render -> write. Nothing else sees two of them."""

from tilegen.pipeline.kernels import Built, describe_build, explain_spec, settle, with_comparisons
from tilegen.pipeline.programs import BuiltProgram
from tilegen.pipeline.stages import Source, build, expand, explain, load, load_kernel, output_texts

__all__ = [
    "Built", "BuiltProgram", "Source", "build", "describe_build", "expand", "explain", "explain_spec", "load",
    "load_kernel", "output_texts", "settle", "with_comparisons",
]  # fmt: skip
