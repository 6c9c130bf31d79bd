"""The table of instructions: what each is called, what it takes, who carries it out, how its text begins.

A step of a plan that does something names its row here. What the step touches follows from the row (``effects``), and
every reader of a plan looks the row up: one that a reader does not know is an error there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tilegen.arithmetic import UPDATES as FUNCTIONS
from tilegen.arithmetic import Domain
from tilegen.dtypes import bits_dtype
from tilegen.spaces import GLOBAL, REGISTER, SHARED, TMEM, Space

READS, WRITES, UPDATES = "reads", "writes", "updates"  # updates: reads and writes
THREAD = "thread"  # each thread has consecutive elements of its own
ROWS = "rows"  # some lanes of a warp each give the place of a row that the whole warp shares
BOX = "box"  # a box of an array, and the same elements one row behind the other
FRAGMENT = "fragment"  # each lane of a warp has consecutive elements of a matrix that the warp shares
MATRIX = "matrix"  # a matrix in shared memory, where a MatrixDescriptor says
LANES = "lanes"  # consecutive elements of each of a warp's 32 lanes of tensor memory; the place is the first lane's
ALL_LANES = "all lanes"  # consecutive elements of each lane of tensor memory; the place is lane 0's
ANY = (GLOBAL.state, SHARED.state, REGISTER.state)
_REGISTERS = (REGISTER.state,)
MATRIX_ROW_ELEMS = 8  # ldmatrix and stmatrix move rows of 8 elements of 2 bytes: PTX ISA, .m8n8, .b16


@dataclass(frozen=True)
class OperandForm:
    """One operand: the field of the step that holds it, what is done to it, how it lies, in which state spaces.

    ``elems``: how many elements each thread has, 0 where the step says that. ``word``: what its text takes registers
    as, a type of C.
    """

    field: str
    use: str
    lies: str = THREAD
    spaces: tuple[str, ...] = ANY
    elems: int = 0
    word: str = "unsigned"

    @property
    def word_bytes(self) -> int:
        return 8 if self.word == "double" else 4


@dataclass(frozen=True)
class Instruction:
    """A row of the table.

    ``operands`` stand in the order in which its text names them. ``cost`` is a row of the table of costs
    (``cost.accesses``). ``feature``: what an arch must have. ``warp``: the lanes of a warp carry it out together.
    ``queue``: where an asynchronous one is waited for, a row of QUEUES, or MBARRIER. ``proxy``: through which shared
    memory is seen, generic or async. ``widths_bytes``: what one thread can move at once, () for any. ``prelude``: the
    function of the prelude that carries it out, with {bytes}, {count}, {rank} or {or_zero} for what the step says.

    ``function``: of an atomic update of memory, which of ``arithmetic.UPDATES`` it is.

    Of a function of registers, ``compute`` is the meaning in a domain (see ``function_of_registers``), and ``c`` its
    text over {0}, {1}, .., "" where a template has it.
    """

    name: str
    operands: tuple[OperandForm, ...]
    cost: str
    feature: str = ""
    warp: bool = False
    queue: str = ""
    proxy: str = "generic"
    widths_bytes: tuple[int, ...] = ()
    prelude: str = ""
    compute: Callable[..., Any] | None = None
    c: str = ""
    function: str = ""

    def moves(self, src: Space, dst: Space) -> bool:
        """Does an instruction that moves elements take them from one space to the other?

        >>> CP_ASYNC.moves(GLOBAL, SHARED), CP_ASYNC.moves(SHARED, GLOBAL)
        (True, False)
        """
        sides = {READS: src, WRITES: dst, UPDATES: dst}
        return all(sides[o.use].state in o.spaces for o in self.operands)

    def __reduce_ex__(self, protocol: Any) -> Any:
        """A row of the table stays that row in another process: readers ask whether it is."""
        if INSTRUCTIONS.get(self.name) is self:
            return _find_row, (self.name,)
        return super().__reduce_ex__(protocol)


@dataclass(frozen=True)
class Queue:
    """Where a thread's asynchronous copies are waited for in groups; the prelude functions that close and await one.

    ``arrive``: the function that has the copies so far arrive at an mbarrier when they have landed, "" if none does.
    ``closes_itself``: a copy is a group of its own, so that no statement of a spec closes it. ``together``: the scope
    whose threads commit and wait at once. ``word``: what a spec or a message calls it, "" where neither waits for it.
    """

    name: str
    commit: str
    wait: str
    arrive: str = ""
    closes_itself: bool = False
    together: str = "thread"
    word: str = ""


PRODUCTS = "mma"  # the queue of products by wgmma
TENSOR = "tcgen05"  # the queue of a thread's products in tensor memory, which arrive at an mbarrier when they are done
TENSOR_LOADS, TENSOR_STORES = "tcgen05.ld", "tcgen05.st"  # of a warp's moves between tensor memory and registers
QUEUES = {
    queue.name: queue
    for queue in (
        Queue("cp.async", "cp_async_commit", "cp_async_wait", "cp_async_arrive", word="cp_async"),
        Queue("bulk", "tma_commit", "tma_wait", closes_itself=True, word="tma"),
        Queue(PRODUCTS, "wgmma_commit", "wgmma_wait", together="warpgroup", word="mma"),
        Queue(TENSOR, "", "", arrive="tcgen05_commit", closes_itself=True),
        Queue(TENSOR_LOADS, "", "tmem_wait_load", closes_itself=True, together="warp", word="tmem"),
        Queue(TENSOR_STORES, "", "tmem_wait_store", closes_itself=True, together="warp", word="tmem"),
    )
}
MBARRIER = "mbarrier"  # the queue of what reports to an mbarrier and is waited for there


def _moves(src: OperandForm | None = None, dst: OperandForm | None = None) -> tuple[OperandForm, OperandForm]:
    return dst or OperandForm("dst", WRITES), src or OperandForm("src", READS)


def _matrices(name: str, trans: bool) -> Instruction:
    """ldmatrix or stmatrix: the registers first, then the rows in shared memory."""
    loads = name == "ldmatrix"
    register = OperandForm("dst" if loads else "src", WRITES if loads else READS, spaces=_REGISTERS)
    rows = OperandForm("src" if loads else "dst", READS if loads else WRITES, ROWS, (SHARED.state,))
    suffix = ".trans" if trans else ""
    prelude = f"{name}_x{{count}}{suffix.replace('.', '_')}"
    return Instruction(f"{name}{suffix}", (register, rows), "matrix", feature=name, warp=True, prelude=prelude)


def _tma(name: str, is_load: bool, feature: str = "tma") -> Instruction:
    array = OperandForm("at", READS if is_load else WRITES, BOX, (GLOBAL.state,))
    shared = OperandForm("shared", WRITES if is_load else READS, BOX, (SHARED.state,))
    return Instruction(
        f"tma.{name}", (shared, array), "box", feature=feature, queue=MBARRIER if is_load else "bulk", proxy="async",
        prelude=f"tma_{name}_{{rank}}d",
    )  # fmt: skip


FETCH = Instruction("fetch", (OperandForm("src", READS, spaces=(GLOBAL.state,), elems=1),), "access")
PICK = Instruction("pick", (OperandForm("src", READS, spaces=_REGISTERS, elems=1),), "registers")
MOVE = Instruction("move", _moves(), "access", widths_bytes=(1, 2, 4, 8, 16))
CP_ASYNC = Instruction(  # PTX ISA, cp.async: cp-size
    "cp.async",
    _moves(OperandForm("src", READS, spaces=(GLOBAL.state,)), OperandForm("dst", WRITES, spaces=(SHARED.state,))),
    "cp.async", feature="cp_async", queue="cp.async", widths_bytes=(4, 8, 16), prelude="cp_async_{bytes}{or_zero}",
)  # fmt: skip
LDMATRIX, LDMATRIX_TRANS = _matrices("ldmatrix", False), _matrices("ldmatrix", True)
STMATRIX, STMATRIX_TRANS = _matrices("stmatrix", False), _matrices("stmatrix", True)
TMA_LOAD, TMA_STORE = _tma("load", True), _tma("store", False)
TMA_MULTICAST = _tma("multicast", True, "multicast")


def _update(function: str) -> Instruction:
    """red: each element of memory is updated by itself, as if no other thread came between (PTX ISA, ``red``)."""
    dst, src = (
        OperandForm("dst", UPDATES, spaces=(GLOBAL.state, SHARED.state)),
        OperandForm("src", READS, spaces=_REGISTERS),
    )
    return Instruction(
        f"red.{function}",
        (dst, src),
        "atomic",
        widths_bytes=(2, 4, 8, 16),
        prelude=f"red_{function}",
        function=function,
    )


def _tma_reduce(function: str) -> Instruction:
    """cp.reduce.async.bulk.tensor: a store whose elements are put to those of the array, each by itself."""
    row = _tma("store", False)
    shared, array = row.operands
    return replace(
        row, name=f"tma.reduce.{function}", operands=(shared, replace(array, use=UPDATES)),
        prelude=f"tma_reduce_{function}", function=function,
    )  # fmt: skip


def _tensor_move(name: str, is_load: bool, queue: str) -> Instruction:
    """tcgen05.ld or .st in the shape 32x32b: lane l of a warp has neighbours of lane l of the warp's window."""
    register = OperandForm("dst" if is_load else "src", WRITES if is_load else READS, spaces=_REGISTERS)
    cells = OperandForm("src" if is_load else "dst", READS if is_load else WRITES, LANES, (TMEM.state,))
    return Instruction(
        name, (register, cells), "tensor", feature="tcgen05", warp=True, queue=queue,
        widths_bytes=tuple(4 << k for k in range(8)), prelude=f"tmem_{'load' if is_load else 'store'}_{{count}}",
    )  # fmt: skip


def _tensor_product(kind: str, in_cells: bool = False) -> Instruction:
    """tcgen05.mma of a kind: one thread starts it, c in tensor memory, b in shared memory by a descriptor, a in either.

    The scale factors of a and b, of the kinds that take them, are in tensor memory. PTX ISA, tcgen05.mma: ``a-desc`` or
    ``[a-tmem]``.
    """
    c, held = (OperandForm(name, use, ALL_LANES, (TMEM.state,)) for name, use in (("c", UPDATES), ("a", READS)))
    a, b = (OperandForm(name, READS, MATRIX, (SHARED.state,)) for name in "ab")
    scaled, end = kind in SCALED_KINDS, ".cells" if in_cells else ""
    factors = [OperandForm(name, READS, ALL_LANES, (TMEM.state,)) for name in ("sfa", "sfb") if scaled]
    return Instruction(
        f"tcgen05.mma.{kind}{end}", (c, held if in_cells else a, b, *factors), "matrices", feature="tcgen05",
        queue=TENSOR, proxy="async", prelude=f"tcgen05_mma_{kind}{end.replace('.', '_')}",
    )  # fmt: skip


TENSOR_LOAD = _tensor_move("tcgen05.ld", True, TENSOR_LOADS)
TENSOR_STORE = _tensor_move("tcgen05.st", False, TENSOR_STORES)
TENSOR_COPY = Instruction(  # one thread starts it: PTX ISA, tcgen05.cp, .32x128b with .warpx4
    "tcgen05.cp",
    (OperandForm("dst", WRITES, ALL_LANES, (TMEM.state,)), OperandForm("src", READS, MATRIX, (SHARED.state,))),
    "matrices", feature="tcgen05", queue=TENSOR, proxy="async", prelude="tcgen05_cp_32x128b_warpx4",
)  # fmt: skip
TENSOR_KINDS = ("f16", "tf32", "i8", "f8f6f4")  # PTX ISA, tcgen05.mma: kinds without scale factors
SCALED_KINDS = ("mxf8f6f4",)  # and with them
TENSOR_PRODUCTS = {kind: _tensor_product(kind) for kind in (*TENSOR_KINDS, *SCALED_KINDS)}
CELL_PRODUCTS = {kind: _tensor_product(kind, in_cells=True) for kind in TENSOR_KINDS}  # a in tensor memory
RED = {function: _update(function) for function in FUNCTIONS}
TMA_REDUCE = {function: _tma_reduce(function) for function in FUNCTIONS}


def function_of_registers(
    name: str, sources: int, compute: Callable[..., Any], c: str = "", widths_bytes: tuple[int, ...] = ()
) -> Instruction:
    """The row of a function of registers, element by element.

    ``compute(domain, sources, dtypes, dtype, value)`` takes the domain of the run, a stored array (threads, elements)
    and the dtype of each source, the dtype of the result and the step's ``value``; what it gives, stored in that dtype,
    is broadcast to as many elements.

    >>> import numpy as np
    >>> from tilegen.arithmetic import TYPED
    >>> def double(domain, sources, dtypes, dtype, value):
    ...     return domain.combine("+", *sources, *sources, dtype)
    >>> row = function_of_registers("double", 1, double, "{0} + {0}")
    >>> row.compute(TYPED, [np.float32([[1.5]])], ["float32"], "float32", None), len(row.operands)
    (array([[3.]], dtype=float32), 2)
    """
    dst = OperandForm("dst", WRITES, spaces=_REGISTERS)
    srcs = (OperandForm(f"srcs[{k}]", READS, spaces=_REGISTERS) for k in range(sources))
    return Instruction(name, (dst, *srcs), "registers", widths_bytes=widths_bytes, compute=compute, c=c)


def _fill(domain: Domain, sources: Any, dtypes: Any, dtype: str, value: Any) -> Any:
    return domain.fill(0 if value is None else value, dtype)


def _cast(domain: Domain, sources: Any, dtypes: Any, dtype: str, value: Any) -> Any:
    """The value in another type, rounded to nearest even."""
    return domain.convert(sources[0], dtypes[0], dtype)


def _permute_bytes(domain: Domain, sources: Any, dtypes: Any, dtype: str, value: Any) -> Any:
    """Four bytes out of the eight of two words, each named by a nibble of ``value``."""
    wide = bits_dtype(domain.scale)  # what stands for one byte
    both = np.concatenate([np.ascontiguousarray(x).view(wide) for x in sources], axis=1)
    taken = [(value >> 4 * k) % 16 % 8 for k in range(4)]
    return np.ascontiguousarray(both[:, taken]).view(domain.stored(dtype))


FILL = function_of_registers("fill", 0, _fill)
CAST = function_of_registers("cast", 1, _cast)
# Byte k of the result is the one that nibble k of ``value`` names, 0 to 3 of the first word and 4 to 7 of the second
# (CUDA Math API, Integer Intrinsics, __byte_perm). The step's elements are those of one word.
BYTE_PERMUTE = function_of_registers("byte_permute", 2, _permute_bytes, widths_bytes=(4,))

# A tree of functions in registers, of as many operands as it has; and an element of another lane.
COMPUTE = Instruction("compute", (OperandForm("dst", WRITES, spaces=_REGISTERS),), "registers")
SHUFFLE = Instruction(
    "shuffle", (OperandForm("dst", WRITES, spaces=_REGISTERS), OperandForm("src", READS, spaces=_REGISTERS)),
    "registers", warp=True,
)  # fmt: skip

INSTRUCTIONS = {
    row.name: row
    for row in (
        MOVE, CP_ASYNC, LDMATRIX, LDMATRIX_TRANS, STMATRIX, STMATRIX_TRANS, TMA_LOAD, TMA_STORE, TMA_MULTICAST,
        FILL, CAST, BYTE_PERMUTE, COMPUTE, SHUFFLE, FETCH, PICK, *RED.values(), *TMA_REDUCE.values(),
        TENSOR_LOAD, TENSOR_STORE, TENSOR_COPY, *TENSOR_PRODUCTS.values(), *CELL_PRODUCTS.values(),
    )
}  # fmt: skip


def _find_row(name: str) -> Instruction:
    return INSTRUCTIONS[name]
