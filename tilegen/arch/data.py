"""What tilegen knows of a GPU generation, as data, and how many warps of a kernel one of its SMs holds."""

from __future__ import annotations

from dataclasses import dataclass

KB = 1024


@dataclass(frozen=True)
class TensorMemory:
    """A multiprocessor's tensor memory: lanes x columns of 32-bit cells, allocated in whole columns of all lanes.

    Source: PTX ISA, "Tensor Memory" (512 columns of 128 lanes for a CTA), and ``tcgen05.alloc``: the number of columns
    of an allocation is a power of two from 32 to 512, no allocation of a CTA is larger than the one before, and one for
    which no columns are free waits until a CTA there gives some back.
    """

    lanes: int = 128
    columns: int = 512
    least_columns: int = 32

    def allocate(self, columns: int) -> int:
        """The columns that an allocation for so many has, which may be more than there are.

        >>> TensorMemory().allocate(224), TensorMemory().allocate(1)
        (256, 32)
        """
        return max(self.least_columns, 1 << (columns - 1).bit_length())


@dataclass(frozen=True)
class Arch:
    """The numbers of one nvcc target. Sizes are in bytes, registers are 32-bit, a CTA is a thread block.

    ``features`` names what its PTX offers beyond the base. ``access_model_measured`` says whether the wavefront and
    sector rules of ``tilegen.access`` were counted on it; where they were not, reports say so.

    Sources: the tables of "Compute Capabilities" in the CUDA Programming Guide ("Device and Streaming Multiprocessor
    Information", "Memory Information per Compute Capability"); 4-byte banks and 32-byte sectors: CUDA C++ Best
    Practices Guide, "Shared Memory and Memory Banks" and "Coalesced Access to Global Memory". Allocation units:
    cuda_occupancy.h of CUDA 13.0, equal for all archs here. Rates: CUDA Programming Guide, "Compute Capabilities": an
    SM has 4 warp schedulers, each of which issues one instruction for one of its warps at every issue time, and each
    bank of shared memory has a bandwidth of 32 bits a clock cycle, so all 32 together serve one wavefront.
    """

    name: str
    compute_capability: tuple[int, int]
    max_shared_bytes_per_cta: int  # static and dynamic together, after opting in
    shared_bytes_per_sm: int
    max_warps_per_sm: int
    max_ctas_per_sm: int
    features: frozenset[str] = frozenset()
    tensor_memory: TensorMemory | None = None
    access_model_measured: bool = False
    banks: int = 32
    bank_bytes: int = 4
    sector_bytes: int = 32
    warp_lanes: int = 32
    max_threads_per_cta: int = 1024
    static_shared_bytes: int = 48 * KB
    reserved_shared_bytes_per_cta: int = 1 * KB  # taken by the system from shared_bytes_per_sm for every CTA
    shared_unit_bytes: int = 128
    registers_per_sm: int = 65536
    max_registers_per_cta: int = 65536
    max_registers_per_thread: int = 255
    register_unit: int = 256  # registers are given to a warp in these units
    sm_partitions: int = 4  # each owns a quarter of the registers
    issues_per_clock: int = 4  # warp instructions of an SM
    wavefronts_per_clock: int = 1  # of an SM's shared memory


def occupancy(arch: Arch, threads: int, registers: int, shared_bytes: int) -> int:
    """Warps of a kernel that one SM holds at once: whole CTAs times warps per CTA; 0 if it cannot launch.

    The rules of cuda_occupancy.h (CUDA 13.0): a CTA takes ceil(threads / 32) warps; a warp takes 32 * registers rounded
    up to 256, from one of four partitions that hold a quarter of the registers each; a CTA takes its shared bytes plus
    the reserved 1024, rounded up to 128. Every SM is assumed to give shared memory its largest carve-out.

    >>> from tilegen.arch import ARCHES
    >>> occupancy(ARCHES["sm_90"], threads=256, registers=32, shared_bytes=0)
    64
    >>> occupancy(ARCHES["sm_90"], threads=256, registers=33, shared_bytes=0)  # 40 registers a thread after rounding
    48
    >>> occupancy(ARCHES["sm_90"], threads=128, registers=168, shared_bytes=96 * 1024)
    8
    """
    if threads < 1 or registers < 0 or shared_bytes < 0:
        raise ValueError(f"cannot launch {threads} threads, {registers} registers, {shared_bytes} shared bytes")
    warps = -(-threads // arch.warp_lanes)
    if threads > arch.max_threads_per_cta or shared_bytes > arch.max_shared_bytes_per_cta:
        return 0
    shared = shared_for(arch, shared_bytes)
    limits = (
        arch.max_ctas_per_sm,
        arch.max_warps_per_sm // warps,
        arch.shared_bytes_per_sm // shared,
        _limit_by_registers(arch, warps, registers),
    )
    return min(limits) * warps


def registers_for(arch: Arch, threads: int, ctas: int) -> int:
    """The most registers a thread may have where so many CTAs share an SM: a multiple of 8, as nvcc gives them.

    A partition of an SM has a part of its registers, and of ten warps one has three.

    >>> from tilegen.arch import ARCHES
    >>> [registers_for(ARCHES["sm_90"], threads, ctas) for threads, ctas in ((256, 2), (64, 1), (320, 1))]
    [128, 255, 168]
    """
    warps = ctas * -(-threads // arch.warp_lanes)
    lanes = _round_up(warps, arch.sm_partitions) * arch.warp_lanes
    return min(arch.max_registers_per_thread, arch.registers_per_sm // lanes // 8 * 8)


def shared_for(arch: Arch, shared_bytes: int) -> int:
    """Bytes of an SM's shared memory that a CTA takes: its own, what the system reserves, rounded up."""
    return _round_up(shared_bytes + arch.reserved_shared_bytes_per_cta, arch.shared_unit_bytes)


def _limit_by_registers(arch: Arch, warps: int, registers: int) -> int:
    per_warp = _round_up(max(registers, 1) * arch.warp_lanes, arch.register_unit)
    # The launch check counts as if all partitions were filled alike.
    assumed = per_warp * _round_up(warps, arch.sm_partitions)
    if registers > arch.max_registers_per_thread or assumed > arch.max_registers_per_cta:
        return 0
    return arch.registers_per_sm // arch.sm_partitions // per_warp * arch.sm_partitions // warps


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


# ---------------------------------------------------------------- the GPU that kernels usually run on
MB = 1 << 20


@dataclass(frozen=True)
class TypicalDevice:
    """A product: multiprocessors, bytes of L2, bytes per second of its memory, cycles per second under load."""

    product: str
    sm_count: int
    l2_bytes: int
    memory_bytes_per_s: float
    clock_hz: float

    @property
    def bytes_per_clock(self) -> float:
        """One multiprocessor's share of the memory's bandwidth.

        >>> round(typical_device("sm_90").bytes_per_clock, 1)
        18.4
        """
        return self.memory_bytes_per_s / self.sm_count / self.clock_hz


_TYPICAL = {
    "sm_80": TypicalDevice("A100 80 GB", 108, 40 * MB, 2.04e12, 1.41e9),
    "sm_86": TypicalDevice("A40", 84, 6 * MB, 0.696e12, 1.74e9),
    "sm_89": TypicalDevice("L40S", 142, 96 * MB, 0.864e12, 2.52e9),
    "sm_90": TypicalDevice("H200", 132, 60 * MB, 4.8e12, 1.98e9),
    "sm_100": TypicalDevice("B200", 148, 126 * MB, 8.0e12, 1.96e9),
    "sm_120": TypicalDevice("RTX 5090", 170, 96 * MB, 1.79e12, 2.41e9),
}


def typical_device(arch: str) -> TypicalDevice:
    """The product that stands for an arch.

    >>> typical_device("sm_90a").product
    'H200'
    """
    return _TYPICAL[arch.rstrip("a")]
