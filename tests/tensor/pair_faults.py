"""Faults planted alone in the text of a kernel of pairs, with what the machine that runs its PTX says of each."""

from __future__ import annotations

from dataclasses import dataclass

VALUES = "values"  # the kernel ends, and its result is wrong
NEVER, TWO = "a deadlock", "cta_group::[12], and the kernel has cta_group::[12] too"
FREED, NOT_WRITTEN = "tensor memory is freed, and nothing orders that after a", "is read that nothing has written"


@dataclass(frozen=True)
class PairFault:
    """``old`` becomes ``new``, and so on for each two of ``more``. ``said``: what is found, "" where nothing can be.

    ``number``: of the list of faults that kernels for Blackwell are tried with, 0 where a fault is not of that list.
    ``why``: why nothing can be found.
    """

    name: str
    said: str
    old: str
    new: str
    more: tuple[tuple[str, str], ...] = ()
    number: int = 0
    why: str = ""

    @property
    def parts(self) -> tuple[tuple[str, str], ...]:
        return ((self.old, self.new), *self.more)


EVEN = "if (cbx == 0) {\n            #pragma"  # around all that multiplies
ANNOUNCE = "mbarrier_expect(&full[s & 1], 40960);\n        }"
AFTER = "tmem_fence_after();"
BEGIN = f"    sync_cluster();\n    {AFTER}\n    const"
LAST = "        sync_cluster();\n"
END = f"        tmem_fence_before();\n{LAST}        {AFTER}\n"
TAKE, FREE = (f"if (threadIdx.x / 32 == 1) {{\n        tmem_{what}_pair" for what in ("alloc", "free"))
MADE = "        fence_mbarrier_init();\n"
FENCE = '        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");\n'
WAIT_ODD = " else {\n mbarrier_wait_cluster(&full[s & 1], (s >> 1) & 1);\n}"
SENT, ALONE = ("shared::cluster.multicast::cluster.b64 [%0], %1;", "shared::cluster.b64 [%0];")
MASK = (', "h"((unsigned short)peers) : "memory"', ' : "memory"')
STAGE_A, STAGE_B = "&sa[(s & 1) * 8192]);\n                load_sb", "&sb[(s & 1) * 2048]);\n            }"


def in_even(text: str) -> str:
    """Statements that the even CTA alone carries out."""
    return f"if (cbx == 0) {{\n{text}}}\n"


def in_stages(stage: str) -> str:
    """The odd CTA's stages change places."""
    return stage.replace("(s & 1)", "((s ^ cbx) & 1)")


def of_one(instruction: str) -> tuple[str, str]:
    """An instruction of one CTA in a kernel of pairs."""
    return f"tcgen05.{instruction}.cta_group::2", f"tcgen05.{instruction}.cta_group::1"


FAULTS = (
    PairFault("free is told to one CTA", NEVER, "(&free[s & 1], 3)", "(&free[s & 1], 1)", number=10),
    PairFault("done is told to one CTA", NEVER, "(&done[t & 1], 3)", "(&done[t & 1], 1)", number=10),
    PairFault("a commit without multicast", NEVER, SENT, ALONE, (MASK,), 10),
    PairFault("both CTAs multiply", NEVER, EVEN, EVEN.replace("== 0", ">= 0"), number=11),
    PairFault("the odd CTA multiplies", NEVER, EVEN, EVEN.replace("== 0", "== 1"), number=11),
    PairFault("the odd CTA waits for what both have brought", NEVER, ANNOUNCE, ANNOUNCE + WAIT_ODD, number=12),
    PairFault("the even CTA announces its own bytes", NEVER, "40960", "20480", number=13),
    PairFault("both CTAs announce bytes", "more arrivals", f"== 0) {{\n{' ' * 12}mb", f">= 0) {{\n{' ' * 12}mb"),
    PairFault(
        "read counts one CTA", "the phase before has completed", "(read, 2)", "(read, 1)",
        (("(&read[1], 2)", "(&read[1], 1)"),), 14,
    ),
    PairFault("columns are given back before the pair has met", FREED, END, "", ((LAST, ""),), 29),
    PairFault("the even CTA alone meets at the end", FREED, END, in_even(END), ((LAST, in_even(LAST)),), 29),
    PairFault("M of one CTA", NOT_WRITTEN, "0x10100490u", "0x08100490u", number=31),
    PairFault("N of one CTA", NOT_WRITTEN, "0x10100490u", "0x10080490u", number=31),
    PairFault("B at another place in the odd CTA", "nothing orders", STAGE_B, in_stages(STAGE_B), number=33),
    PairFault("A at another place in the odd CTA", "nothing orders", STAGE_A, in_stages(STAGE_A), number=33),
    PairFault("columns are taken for one CTA", TWO, *of_one("alloc")),
    PairFault("the permit of one CTA", TWO, *of_one("relinquish_alloc_permit")),
    PairFault("columns are given back for one CTA", TWO, *of_one("dealloc")),
    PairFault("the product of one CTA", TWO, *of_one("mma")),
    PairFault("a commit of one CTA", TWO, *of_one("commit")),
    PairFault("columns are taken before the pair has met", "not met", "sync_cluster();  //", "__syncthreads();  //"),
    PairFault(
        "each CTA meets alone behind the columns", "nothing orders the use of columns", BEGIN,
        BEGIN.replace("sync_cluster", "__syncthreads"),
    ),
    PairFault("the even CTA alone takes columns", NEVER, TAKE, TAKE.replace("== 1", "== 1 && cbx == 0")),
    PairFault("the even CTA alone gives columns back", NEVER, FREE, FREE.replace("== 1", "== 1 && cbx == 0")),
    PairFault("the same columns of B in both CTAs", VALUES, "k * 64, cbx * 32, &full", "k * 64, 0, &full"),
    PairFault("the same rows of A in both CTAs", VALUES, "t * 256 + cbx * 128, &full", "t * 256, &full"),
    PairFault("rows of the other CTA are stored", VALUES, "t * 256 + cbx * 128);", "t * 256 + 128 - cbx * 128);"),
    PairFault("the odd CTA reports to its own mbarrier", NEVER, "&full[s & 1], 0);", "&full[s & 1], cbx);"),
    PairFault("loads report to the odd CTA", NEVER, "&full[s & 1], 0);", "&full[s & 1], 1);"),
    PairFault("a load of one CTA reports to the other", "of CTA 0", "2d.cta_group::2.shared", "2d.shared"),
    PairFault("the address of another CTA is one's own", NEVER, "{%4, %5}], [there];", "{%4, %5}], [%2];"),
    PairFault("read is told to one's own CTA", NEVER, "(&read[t & 1], 0)", "(&read[t & 1], cbx)"),
    PairFault(
        "read is told within the CTA", "tensor memory is written, and nothing orders that after a read",
        "mbarrier.arrive.release.cluster.shared", "mbarrier.arrive.shared",
    ),
    PairFault("waits within the CTA", "nothing orders", "parity.acquire.cluster.shared", "parity.shared"),
    PairFault("nothing tells of mbarriers", "does not see mbarrier.init", MADE, ""),
    PairFault("no fence behind full", "nothing orders", f"(s >> 1) & 1);\n{' ' * 20}{AFTER}", "(s >> 1) & 1);"),
    PairFault("no fence behind done", "nothing orders", f"t >> 1);\n{' ' * 12}{AFTER}", "t >> 1);"),
    PairFault("a commit to a CTA that is not there", "is sent to CTA 2", "(&done[t & 1], 3)", "(&done[t & 1], 7)"),
    PairFault("mbarriers are told of within the CTA", "", MADE, FENCE, why="the cluster meets, which tells of them"),
    PairFault(
        "no fence behind read", "", f"((t >> 1) + 1) & 1);\n{' ' * 16}{AFTER}", "((t >> 1) + 1) & 1);",
        why="the fence behind full comes before the product",
    ),
)  # fmt: skip
