"""Plan: a kernel as plain frozen data, and the ways to read it.

``steps`` are what a kernel does, ``memories`` where values lie, ``instructions`` the table of what steps are carried
out by. ``effects(step)`` says what a step touches, ``walk`` leads through all of them.
"""

from tilegen.plan.aliases import pairs_apart
from tilegen.plan.descriptors import MatrixDescriptor
from tilegen.plan.effects import Effects, Touch, UnknownStep, drop_unused, effects, flatten, matrices, names_used
from tilegen.plan.instructions import (
    ALL_LANES,
    BYTE_PERMUTE,
    CAST,
    CELL_PRODUCTS,
    COMPUTE,
    CP_ASYNC,
    FETCH,
    FILL,
    INSTRUCTIONS,
    LANES,
    LDMATRIX,
    LDMATRIX_TRANS,
    MATRIX_ROW_ELEMS,
    MBARRIER,
    MOVE,
    PICK,
    PRODUCTS,
    QUEUES,
    RED,
    SCALED_KINDS,
    SHUFFLE,
    STMATRIX,
    STMATRIX_TRANS,
    TENSOR,
    TENSOR_COPY,
    TENSOR_KINDS,
    TENSOR_LOAD,
    TENSOR_LOADS,
    TENSOR_PRODUCTS,
    TENSOR_STORE,
    TENSOR_STORES,
    TMA_LOAD,
    TMA_MULTICAST,
    TMA_REDUCE,
    TMA_STORE,
    Instruction,
    OperandForm,
    Queue,
    function_of_registers,
)
from tilegen.plan.kernel import (
    MOST_RESIDENT,
    RESIDENT_CTAS,
    Launch,
    Param,
    Plan,
    Role,
    all_steps,
    arguments,
    arrays,
    default_values,
    tensor_maps,
)
from tilegen.plan.memories import (
    ADDRESS_BYTES,
    BARRIER_BYTES,
    TMA_ALIGN_BYTES,
    TMA_UNIT_BYTES,
    Barrier,
    Memory,
    Peers,
    Ref,
    Slot,
    TensorMap,
    find_rows_apart,
    flat_memory,
    register_memory,
    subscript,
)
from tilegen.plan.products import Fence, Mma, TensorCopy, TensorFence, TensorMma, Wgmma, count_factors
from tilegen.plan.program import WORKSPACE_ALIGN_BYTES, CountedCtas, PassPlan, ProgramPlan, join_memories
from tilegen.plan.promise_check import (
    CHECKING_THREADS,
    ENTERS,
    FINDS_TWIN,
    LOOKS,
    MOST_CHECKING_CTAS,
    PromiseCheck,
    count_checking_ctas,
    count_slots,
    list_checks,
)
from tilegen.plan.steps import (
    Arrive,
    Await,
    Block,
    Commit,
    Compute,
    Fetch,
    Follow,
    Let,
    Map,
    Move,
    Pick,
    PromiseTest,
    Repeat,
    Shuffle,
    Stamp,
    Step,
    Sync,
    Tma,
    Wait,
    When,
    let,
    repeat,
    when,
)
from tilegen.plan.trust import CHECK_MACRO, Claim, Promise, Trust, join_trust, say_if_false, trust_data
from tilegen.plan.updates import UpdateForm, find_box_type, find_updates, list_updates
from tilegen.plan.walk import Position, Spot, Visit, begin, plain_name, spot_of, trip_name, walk

__all__ = [
    "ADDRESS_BYTES", "ALL_LANES", "BARRIER_BYTES", "BYTE_PERMUTE", "CAST", "CELL_PRODUCTS", "CHECKING_THREADS",
    "CHECK_MACRO", "COMPUTE", "CP_ASYNC", "ENTERS", "FETCH", "FILL", "FINDS_TWIN", "INSTRUCTIONS", "LANES", "LDMATRIX",
    "LDMATRIX_TRANS", "LOOKS", "MATRIX_ROW_ELEMS", "MBARRIER", "MOST_CHECKING_CTAS", "MOST_RESIDENT", "MOVE", "PICK",
    "PRODUCTS", "QUEUES", "RED", "RESIDENT_CTAS", "SCALED_KINDS", "SHUFFLE", "STMATRIX", "STMATRIX_TRANS", "TENSOR",
    "TENSOR_COPY", "TENSOR_KINDS", "TENSOR_LOAD", "TENSOR_LOADS", "TENSOR_PRODUCTS", "TENSOR_STORE", "TENSOR_STORES",
    "TMA_ALIGN_BYTES", "TMA_LOAD", "TMA_MULTICAST", "TMA_REDUCE", "TMA_STORE", "TMA_UNIT_BYTES",
    "WORKSPACE_ALIGN_BYTES", "Arrive", "Await", "Barrier", "Block", "Claim", "Commit", "Compute", "CountedCtas",
    "Effects", "Fence", "Fetch", "Follow", "Instruction", "Launch", "Let", "Map", "MatrixDescriptor", "Memory", "Mma",
    "Move", "OperandForm", "Param", "PassPlan", "Peers", "Pick", "Plan", "Position", "ProgramPlan", "Promise",
    "PromiseCheck", "PromiseTest", "Queue", "Ref", "Repeat", "Role", "Shuffle", "Slot", "Spot", "Stamp", "Step", "Sync",
    "TensorCopy", "TensorFence", "TensorMap", "TensorMma", "Tma", "Touch", "Trust", "UnknownStep", "UpdateForm",
    "Visit", "Wait", "Wgmma", "When", "all_steps", "arguments", "arrays", "begin", "count_checking_ctas",
    "count_factors", "count_slots", "default_values", "drop_unused", "effects", "find_box_type", "find_rows_apart",
    "find_updates", "flat_memory", "flatten", "function_of_registers", "join_memories", "join_trust", "let",
    "list_checks", "list_updates", "matrices", "names_used", "pairs_apart", "plain_name", "register_memory", "repeat",
    "say_if_false", "spot_of", "subscript", "tensor_maps", "trip_name", "trust_data", "walk", "when",
]  # fmt: skip
