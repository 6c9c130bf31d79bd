"""TG2xx: layouts, regions and what they must agree on."""

from __future__ import annotations

from tilegen.spec.rules.rule import Rule


def _buffer(layout: str, scope: str = "shared", shape: str = "[32, 8]") -> str:
    return f'buffers:\n  A: {{scope: {scope}, dtype: float32, shape: {shape}, layout: "{layout}"}}\n'


def _copy(src: str, dst: str = "s", more: str = "") -> str:
    return (
        "buffers:\n  X: {scope: global, dtype: float32, shape: [100, 32]}\n"
        "  s: {scope: shared, dtype: float32, shape: [32]}\n"
        f'ops:\n  - copy: {{src: "{src}", dst: "{dst}"{more}}}\n'
    )


_REGISTERS = (
    "buffers:\n  s: {{scope: shared, dtype: float32, shape: [32, 8]}}\n"
    '  r: {{scope: register, dtype: float32, shape: [32, 8], layout: "S[(32,8):(1@laneid,1)]"}}\n'
    "ops:\n  - copy: {{scope: {scope}, src: s, dst: r}}\n"
)

_FILLED = "buffers:\n  s: {{scope: shared, dtype: int8, shape: [32]}}\nops:\n  - fill: {{dst: s, value: {value}}}\n"

_UPDATED = (
    "grid: {{bx: 4}}\nbuffers:\n  X: {{scope: global, dtype: float32, shape: [128]}}\n"
    "  S: {{scope: global, dtype: float32, shape: [32]}}\n  Y: {{scope: global, dtype: {dtype}, shape: [128]}}\n"
    "  s: {{scope: shared, dtype: float32, shape: [32]}}\n"
    "ops:\n  - fill: {{dst: s, value: 0}}\n  - sync: cta\n"
    '  - copy: {{src: "X[bx*32 : +32]", dst: s, accumulate: add}}\n  - sync: cta\n{then}'
)
_ADDED = "  - copy: {src: s, dst: S, accumulate: add}\n"

LAYOUT_RULES = {
    "TG200": Rule(
        "a layout that cannot be read",
        "A layout is row, col, S[shape:strides] with optional replicas and offset, Swizzle(per_element, swizzle_len, "
        "atom_len), Swizzle(..) o S[..], wg_local_layout(cols), mma_fragment('atom', 'operand') or "
        "PaddedSharedLayout.with_identity_for(pairs, shape, order).",
        _buffer("S[(32,8):(8,1)"),
        _buffer("S[(32,8):(8,1)]"),
    ),
    "TG201": Rule(
        "a layout that cannot be",
        "The notation is understood, but its values are not a layout: extents and strides do not pair up, an extent "
        "is 0, a swizzle's parameters contradict each other, the bases of a padded layout do not reach every element, "
        "an iter crosses from one dimension of the shape into the next.",
        _buffer("S[(32,8):(8,1,1)]"),
        _buffer("S[(32,8):(8,1)]"),
    ),
    "TG202": Rule(
        "layout and shape differ in size",
        "A layout places as many elements as the shape has. Strides, not extents, say how far apart they lie. Threads "
        "may share a dimension of registers unevenly: its slowest iter then passes its end by less than one step, as 3 "
        "times 128 do of 257 elements, S[(3, 128):(1, 1@tx)].",
        _buffer("S[(32,9):(9,1)]"),
        _buffer("S[(32,8):(9,1)]"),
    ),
    "TG203": Rule(
        "an axis that this memory does not have",
        "Global and shared memory have the axis m. Registers have m and the axes that number threads, as far as the "
        "CTA has such threads. Tensor memory has TLane and TCol, which counts elements.",
        _buffer("S[(32,8):(1@laneid,1)]"),
        _buffer("S[(32,8):(1@laneid,1)]", "register"),
    ),
    "TG204": Rule(
        "two elements in one place",
        "A buffer that is written must give every element a place of its own, or the result depends on who writes "
        "last. Reading through such a layout (a stride of 0 repeats a row) is fine, but not in tensor memory, which "
        "only the kernel writes.",
        _copy("X[0]").replace("shape: [32]}", 'shape: [32], layout: "S[32:0]"}'),
        _copy("X[0]").replace("shape: [32]}", 'shape: [32], layout: "S[32:1]"}'),
    ),
    "TG205": Rule(
        "a region that cannot be read",
        "A region is X, X[i], X[lo:hi], X[lo : +len] or X[:, j]: no steps, no negative indices.",
        _copy("X[0, -32:]"),
        _copy("X[0, 0:32]"),
    ),
    "TG206": Rule(
        "too many indices",
        "A region has at most as many indices as its buffer has dimensions; those left out mean all.",
        _copy("X[0, 0:32, 0]"),
        _copy("X[0, 0:32]"),
    ),
    "TG207": Rule(
        "a region leaves its buffer",
        "The message names the first CTA, loop trip or instance for which it does. 'edge: clip' clips at both "
        "ends of a global array: what is read outside is 0, or the op's 'pad', what is written outside is dropped.",
        "grid: {bx: 4}\n" + _copy("X[bx*32 : +32, 0]"),
        "grid: {bx: 4}\n" + _copy("X[bx*32 : +32, 0]", more=", edge: clip"),
    ),
    "TG208": Rule(
        "the length of a region is no positive constant",
        "How many elements an op moves is known when the kernel is built; where they begin may depend on anything.",
        "grid: {bx: 2}\n" + _copy("X[0, bx : 32]"),
        "grid: {bx: 2}\n" + _copy("X[bx, 0 : 32]"),
    ),
    "TG209": Rule(
        "a layout that is not tilegen's to choose",
        "'auto' chooses where the elements of a shared buffer lie, so that its accesses meet no bank twice, and which "
        "threads own the elements of registers. In tensor memory it is what the products and copies need that name the "
        "buffer, all of them one layout. A global array lies as its caller made it, and a view sees the bytes "
        "of another buffer: leave the view's layout out, and it follows.",
        _buffer("auto", "global"),
        _buffer("auto"),
    ),
    "TG210": Rule(
        "too large",
        "A thread has 1020 bytes of registers, a CTA the shared memory of its arch, and a global array at most 2**36 "
        "elements. Tensor memory has 128 lanes of 512 columns, each column of a lane 32 bits; the buffers there lie "
        "one behind the other in one allocation.",
        "buffers:\n  A: {scope: shared, dtype: float32, shape: [512, 512]}\n",
        "buffers:\n  A: {scope: shared, dtype: float32, shape: [128, 128]}\n",
    ),
    "TG211": Rule(
        "registers of another scope",
        "A register tensor exists once per instance of the narrowest scope that its thread axes need: none thread, "
        "laneid warp, tid_in_wg or wid_in_wg warpgroup, tx or warpid or wgid cta. An op on it has that scope, or "
        "one that has no more threads: a role of 128 is one warpgroup. With "
        "'layout: auto' the scope is that of the ops on it, all of one.",
        "threads: 64\n" + _REGISTERS.format(scope="cta"),
        "threads: 64\n" + _REGISTERS.format(scope="warp"),
    ),
    "TG212": Rule(
        "the operands of an op do not match",
        "Source and destination have equal shapes after extents of 1 are dropped.",
        _copy("X[0:2]"),
        _copy("X[0:1]"),
    ),
    "TG213": Rule(
        "an op that converts nothing, and two dtypes",
        "copy and permute_layout move elements as they are. cast converts them, between any two memories.",
        _copy("X[0, 0:32]").replace("s: {scope: shared, dtype: float32", "s: {scope: shared, dtype: float16"),
        _copy("X[0, 0:32]"),
    ),
    "TG214": Rule(
        "a value that the dtype has not",
        "An integer is stored as it is; a decimal number may be rounded, but not to 0 or infinity.",
        _FILLED.format(value=300),
        _FILLED.format(value=30),
    ),
    "TG216": Rule(
        "an array that is accumulated into, and touched otherwise",
        "No sync orders CTAs: what one reads or stores in a global array while others update it is there by chance. A "
        "pass updates an array by one function, and neither reads nor stores it; an earlier pass clears it. In shared "
        "memory a sync orders all of it.",
        _UPDATED.format(dtype="float32", then="  - fill: {dst: S, value: 0}\n" + _ADDED),
        _UPDATED.format(dtype="float32", then=_ADDED),
    ),
    "TG217": Rule(
        "a sum of floats in any order that decides something",
        "Atomic sums of floats are added in an order that differs from run to run, and so do their last bits. They may "
        "not become integers or be compared, in this or a later pass: the kernel would do one thing today and another "
        "tomorrow.",
        _UPDATED.format(dtype="int32", then='  - cast: {src: s, dst: "Y[bx*32 : +32]"}\n'),
        _UPDATED.format(dtype="float32", then='  - copy: {src: s, dst: "Y[bx*32 : +32]"}\n'),
    ),
}
