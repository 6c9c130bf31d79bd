"""Where the stages meet: load -> choose layouts -> plan -> prove -> render -> write. Nothing else sees two of them."""

from tilegen.pipeline.kernels import Built, build_kernel, describe_build, explain_spec, settle, with_comparisons
from tilegen.pipeline.programs import BuiltProgram, kernels_of, list_launched
from tilegen.pipeline.spoiled import note_losses
from tilegen.pipeline.stages import Source, build, choose_pass, expand, explain, load, load_kernel, output_texts

__all__ = [
    "Built", "BuiltProgram", "Source", "build", "build_kernel", "choose_pass", "describe_build", "expand",
    "explain", "explain_spec", "kernels_of", "list_launched", "load", "load_kernel", "note_losses", "output_texts",
    "settle", "with_comparisons",
]  # fmt: skip
