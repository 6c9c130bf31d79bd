"""Faults planted alone in the text of the prelude and of the templates, with what the machine says of each.

Each is planted in the rendered CUDA text, where g++ sees a shim in its place, and a compiler nothing wrong.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """``old`` (a pattern) becomes ``new`` in a text. ``said``: what is found; "" where nothing can be, for ``why``."""

    name: str
    spec: str
    old: str
    new: str
    said: str
    why: str = ""

    def plant(self, text: str) -> str:
        """The text with the fault."""
        found = re.sub(self.old, self.new.replace("\\", "\\\\") if "\\g" not in self.new else self.new, text)
        assert found != text, f"{self.name}: {self.spec} has no such text"
        return found


def exactly(text: str) -> str:
    return re.escape(text)


VALUES = "TG42[17]"
SHUFFLE = "__shfl_xor_sync(0xffffffff"
FAULTS: tuple[Fault, ...] = (
    # The bodies of asm.
    Fault("ldmatrix without .trans", "mma_tile", r"\.trans\.shared\.b16 \{%0", ".shared.b16 {%0", VALUES),
    Fault("stmatrix with .trans", "epilogue_panels", r"(stmatrix\S*x4)\.shared", r"\g<1>.trans.shared", VALUES),
    Fault(
        "cp.async of half its size",
        "copy_tile",
        r"cp\.async\.cg(.*), 16;",
        r"cp.async.ca\g<1>, 8;",
        "nothing has written",
    ),
    Fault("parity ^ 1", "copy_tma", r'"r"\(parity\)', '"r"(parity ^ 1)', "a deadlock"),
    Fault("another swizzle", "wgmma_tile", r"swizzle == 128 \? 1", "swizzle == 128 ? 2", VALUES),
    Fault("wgmma always adds", "wgmma_tile", r'"r"\(\(int\)adds\)', '"r"(1)', VALUES),
    Fault("wgmma never adds", "wgmma_tile", r'"r"\(\(int\)adds\)', '"r"(0)', VALUES),
    Fault("wgmma transposes B", "wgmma_tile", r"adds, 1, 1, 0, 0;", "adds, 1, 1, 0, 1;", VALUES),
    Fault("wgmma does not transpose B", "wgmma_ring", r"adds, 1, 1, 0, 1;", "adds, 1, 1, 0, 0;", "TG4"),
    Fault(
        "no proxy fence",
        "copy_tma",
        r'asm volatile\("fence\.proxy\.async.*?;"',
        'asm volatile(""',
        "async proxy does not see",
    ),
    Fault(
        "no proxy fence of stores",
        "epilogue_panels",
        r'asm volatile\("fence\.proxy\.async.*?;"',
        'asm volatile(""',
        "async proxy does not see",
    ),
    Fault(
        "no fence.mbarrier_init",
        "broadcast_cluster",
        r'asm volatile\("fence\.mbarrier_init.*;"',
        'asm volatile(""',
        "async proxy does not see mbarrier.init",
    ),
    Fault("cp.async waits for one less", "copy_tile", r'"n"\(pending\)', '"n"(pending + 1)', "in flight fills it"),
    Fault(
        "TMA waits for one less", "copy_tma", r'"n"\(pending\)', '"n"(pending + 1)', "bulk copies have not been waited"
    ),
    Fault(
        "wgmma waits for one less",
        "wgmma_tile",
        r'(wgmma\.wait.*"n"\()pending\)',
        r"\g<1>pending + 1)",
        "nothing orders that",
    ),
    Fault("one barrier for all warpgroups", "hgemm_roles", r'"r"\(wgid \+ 1\)', '"r"(1)', "is reached by 256"),
    Fault("the CTA's barrier for warpgroups", "hgemm_roles", r'"r"\(wgid \+ 1\)', '"r"(0)', "is reached by 256"),
    Fault("half of the announced bytes", "copy_tma", r'"r"\(bytes\)', '"r"(bytes / 2)', "a deadlock"),
    Fault(
        "coordinates of a store exchanged", "copy_tma", r'(bulk_group "\n\s+"\[%1, \{)%2, %3', r"\g<1>%3, %2", VALUES
    ),
    Fault("multicast to one CTA", "broadcast_cluster", r"\(unsigned short\)peers", "(unsigned short)1", "a deadlock"),
    Fault("bfloat16 rounded to zero", "swiglu", r"cvt\.rn\.bf16", "cvt.rz.bf16", VALUES),
    Fault("half rounded to zero", "fragment_cast", r"cvt\.rn\.f16", "cvt.rz.f16", VALUES),
    Fault("lg2 for ex2", "softmax_short_rows", r"ex2\.approx", "lg2.approx", VALUES),
    Fault("the bias of max_int", "row_statistics", r"xor\.b32 p, %1, 0x80000000", "xor.b32 p, %1, 0x40000000", VALUES),
    Fault(
        "no meeting of the cluster",
        "broadcast_cluster",
        r'asm volatile\("barrier\.cluster.*?;" :::',
        'asm volatile("" :::',
        "nothing orders the use of an mbarrier",
    ),
    Fault(
        "a relaxed meeting",
        "broadcast_cluster",
        r"cluster\.arrive\.aligned",
        "cluster.arrive.relaxed.aligned",
        "nothing orders the use of an mbarrier",
    ),
    Fault("no release", "broadcast_cluster", r"arrive\.release\.cluster", "arrive", "nothing orders that after a read"),
    Fault("no acquire", "broadcast_cluster", r"parity\.acquire\.cluster", "parity", "nothing orders that"),
    Fault("registers are not given", "hgemm_roles", r'(setmaxnreg\.dec.*"n"\()n\)', r"\g<1>n + 16)", "a deadlock"),
    Fault("more registers are taken", "hgemm_roles", r'(setmaxnreg\.inc.*"n"\()n\)', r"\g<1>n + 16)", "a deadlock"),
    Fault(
        "no griddepcontrol.wait",
        "max_columns",
        r'asm volatile\("griddepcontrol\.wait.*?;"',
        'asm volatile(""',
        "before griddepcontrol.wait",
    ),
    Fault(
        "no launch_dependents",
        "max_columns",
        r'asm volatile\("griddepcontrol\.launch.*?;"',
        'asm volatile(""',
        "",
        "the kernel after this one starts later, and does the same",
    ),
    Fault(
        "try_wait is not tried again",
        "copy_tma",
        r"@!done bra wait;",
        "",
        "nothing orders that after a write|async proxy",
    ),
    # The templates.
    Fault(
        "no meeting after mbarriers are made",
        "copy_tma",
        r"(fence_async\(\);\n    \}\n    )__syncthreads\(\);",
        r"\g<1>",
        "nothing orders the use of an mbarrier",
    ),
    Fault(
        "no fence after mbarriers are made",
        "copy_tma",
        r"\n\s+fence_async\(\);(\n    \}\n    __sync)",
        r"\g<1>",
        "async proxy does not see mbarrier.init",
    ),
    Fault(
        "no keep_registers at the fence",
        "wgmma_tile",
        r"\n\s+keep_registers<\d+>\(\w+\);(\n\s+wgmma_fence)",
        r"\g<1>",
        "",
        "it keeps the compiler from moving what stands near; this one moves nothing here, and the PTX is as right",
    ),
    Fault(
        "an arrival that releases nothing",
        "broadcast_cluster",
        r"(mbarrier_arrive_peer_)released\((?=unsigned)(.|\n)*?\n\}",
        r"\g<1>released(unsigned long long *bar, int rank)"
        '\n{\n    asm volatile("{ .reg .b32 there; mapa.shared::cluster.u32 there, %0, %1; '
        'mbarrier.arrive.shared::cluster.b64 _, [there]; }"'
        '\n        ::"r"((unsigned)__cvta_generic_to_shared(bar)), "r"(rank) : "memory");\n}',
        "nothing orders that after a read",
    ),
    Fault("half of a shuffle's mask", "sum_rows", exactly(SHUFFLE), "__shfl_xor_sync(0x0000ffff", "membermask"),
    # Ten more.
    Fault("the words of B exchanged", "mma_tile", r'"r"\(b\[0\]\), "r"\(b\[1\]\)', '"r"(b[1]), "r"(b[0])', VALUES),
    Fault("zeros inside of the array", "tiles_resident", r"inside \? 16 : 0", "inside ? 0 : 16", "TG4"),
    Fault("reads past the edge", "tiles_resident", r"inside \? 16 : 0", "16", "out of bounds"),
    Fault(
        "stores of TMA are not committed",
        "copy_tma",
        r'asm volatile\("cp\.async\.bulk\.commit.*?;"',
        'asm volatile(""',
        "bulk copies have not been waited",
    ),
    Fault("products are not committed", "wgmma_tile", r'asm volatile\("wgmma\.commit.*?;"', 'asm volatile(""', "TG494"),
    Fault(
        "copies are not committed",
        "copy_tile",
        r'asm volatile\("cp\.async\.commit.*?;"',
        'asm volatile(""',
        "in flight fills it",
    ),
    Fault(
        "no wgmma.fence", "wgmma_tile", r'asm volatile\("wgmma\.fence.*?;"', 'asm volatile(""', "before any wgmma.fence"
    ),
    Fault("one arrival too few", "copy_tma", r'"r"\(arrivals\)', '"r"(arrivals + 1)', "a deadlock"),
    Fault("the stride of a descriptor", "wgmma_tile", r"\(stride >> 4\)", "(leading >> 4)", VALUES),
    Fault("addresses of 128 KB alone", "hgemm_roles", r">> 4 & 0x3fff;", ">> 4 & 0x1fff;", "TG494"),
    Fault("words of ldmatrix exchanged", "mma_tile", r"(ldmatrix\S*x4\.shared\.b16 \{)%0, %1", r"\g<1>%1, %0", VALUES),
    Fault(
        "the rank of the other peer",
        "broadcast_cluster",
        r'"r"\(rank\) : "memory"',
        '"r"(rank ^ 1) : "memory"',
        "",
        "two lanes arrive, each at one of the two CTAs: exchanged, both are arrived at as before",
    ),
    Fault(
        "another cache hint",
        "sum_all",
        r"L2::evict_first\.b64 once",
        "L2::evict_last.b64 once",
        "",
        "a hint changes no value",
    ),
)
