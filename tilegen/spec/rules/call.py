"""TG7xx: calls from Python."""

from __future__ import annotations

from tilegen.spec.rules.rule import Rule

CALL_RULES = {
    "TG701": Rule(
        "arguments that the kernel does not have",
        "A call gives all global buffers of the spec in its order, or all that are not only written, and runtime "
        "parameters by keyword.",
    ),
    "TG702": Rule(
        "not an array in a GPU's memory",
        "CuPy arrays, torch tensors on a GPU, and anything with __cuda_array_interface__ or __dlpack__ are taken.",
    ),
    "TG703": Rule(
        "another dtype",
        "A call converts nothing. Where a library lacks bfloat16 or float8, unsigned integers of the same size hold "
        "their bits.",
    ),
    "TG704": Rule(
        "another shape",
        "Extents are those of the spec, and runtime parameters have one value in all of them. A layout other than "
        "'row' also takes the physical image: a flat array of as many elements as the layout spans.",
    ),
    "TG705": Rule(
        "other strides",
        "The kernel's addresses follow from the buffer's layout: nothing is copied in secret. Make the array "
        "contiguous, or write its strides as the buffer's layout, with a param for a pitch.",
    ),
    "TG706": Rule(
        "misaligned",
        "Vector accesses need arrays that start at a multiple of 16 bytes, or of the buffer's 'align'. A slice may "
        "start anywhere.",
    ),
    "TG707": Rule(
        "memory that is written twice, or written while it is read",
        "An array that the kernel writes shares an element with another one: threads are not ordered, so the result "
        "would depend on who comes first.",
    ),
    "TG708": Rule("arrays on several GPUs", "A kernel runs on one GPU; all arrays of a call lie in its memory."),
    "TG709": Rule(
        "a runtime parameter that has no value, or none that the kernel takes",
        "Parameters follow from the arrays' shapes, and pitches from their strides, where these leave one value; else "
        "they are passed by keyword. The kernel was proved for multiples of 'multiple_of' up to 'max'.",
    ),
    "TG710": Rule("a grid that CUDA does not launch", "At most 2**31 - 1 CTAs in x, 65535 in y and in z."),
    "TG711": Rule(
        "an output that is read-only or cannot be allocated",
        "What a kernel writes may not be read-only. Outputs that are left out are allocated by CuPy or torch, if an "
        "input is theirs.",
    ),
    "TG712": Rule(
        "an array of another stream",
        "It says, by __cuda_array_interface__, that a stream of its own is filling it. Nothing is synchronised in "
        "secret.",
    ),
    "TG713": Rule(
        "a kernel that must be compiled while a CUDA graph is captured",
        "An operator is compiled by its first call on a GPU, which takes seconds, and CUDA loads no code during a "
        "capture. A call before the capture, with tensors of any size, is enough.",
    ),
    "TG714": Rule(
        "a tensor that requires grad, and no gradient of it",
        "The gradients of an operator are those that the specs or functions given as 'backward' write: dX is that of "
        "X. An operator that changes its tensors has none.",
    ),
    "TG715": Rule(
        "a spec that is no operator of torch, or no backward of it",
        "An operator takes a tensor at least, and the forms of its results follow from its arguments. A backward "
        "takes the forward's tensors and results by their names, and the gradient of a result Y as dY; it writes dX "
        "for the gradient of X, or what a part behind it takes.",
    ),
}
