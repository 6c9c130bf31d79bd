"""Faults planted alone in the text of the kernels of ``blackwell``, with what the machine says of each.

``number``: of the list of faults that Blackwell kernels are tried with, 0 where a fault is not of that list.
"""

from __future__ import annotations

from dataclasses import dataclass

VALUES = "values"  # the kernel ends, and its result is wrong


@dataclass(frozen=True)
class Planted:
    """Each old part of a text becomes its new one. ``said``: what is found, or "" where nothing can be, for ``why``."""

    number: int
    name: str
    kernel: str
    parts: tuple[tuple[str, str], ...]
    said: str
    why: str = ""

    def plant(self, text: str) -> str:
        """The text with the fault, which must have a place for it."""
        for old, new in self.parts:
            assert old in text, f"{self.name}: {self.kernel} has no {old!r}"
            text = text.replace(old, new)
        return text


def drop(part: str) -> tuple[tuple[str, str], ...]:
    return ((part, ""),)


def swap(old: str, new: str) -> tuple[tuple[str, str], ...]:
    return ((old, new),)


WAIT_READ = "wait(&read[t & 1], ((t >> 1) + 1) & 1);"
WAIT_DONE = "wait(&done[t & 1], t >> 1 & 1);"
COPIES = """copy_factors(ta + i * 4, matrix(fa + i * 128, 0, 128, 0));
                copy_factors(tb + i * 4, matrix(fb + i * 128, 0, 128, 0));
"""
ISSUE = "if (cta == 0) {\n            if (elected())"
STORES = "store(out + (threadIdx.x - 128) * 192 + t * 64, from + (t & 1) * 64, 64);"
ARRIVE_READ = """if (threadIdx.x == 128) {
                arrive(&read[t & 1], 0);
            }
"""
FREED = "commit(&free[s & 1]);"
RACE_READ = "tensor memory is read, and nothing orders that after a write"
RACE_WRITE = "tensor memory is written, and nothing orders that after a (read|write)"
RACE = RACE_READ + "|" + RACE_WRITE
NOT_MET = "nothing tells that the phase before has completed|nothing orders"
FAULTS: tuple[Planted, ...] = (
    Planted(1, "done is not waited for", "one", drop(WAIT_DONE), "nothing has written|" + RACE_READ),
    Planted(2, "no wait::ld", "one", drop("loaded();\n        keep(x);"), "a load may still fill it"),
    Planted(2, "read is told before the loads", "one", ((ARRIVE_READ, ""), (STORES, ARRIVE_READ + STORES)), RACE),
    Planted(
        3,
        "read is told without a meeting",
        "one",
        swap("before();  // read\n            meet_store();", "before();"),
        RACE_WRITE,
    ),
    Planted(4, "no fence before read is told", "one", drop("before();  // read"), RACE_WRITE),
    Planted(5, "no fence behind done", "one", drop("after();  // of done"), RACE_READ),
    Planted(5, "no fence behind full", "one", drop("after();  // of full"), "nothing orders that after a write"),
    Planted(6, "the product does not wait for read", "one", drop(WAIT_READ), NOT_MET),
    Planted(
        7,
        "one accumulator of two",
        "one",
        (("multiply<1>(acc + (t & 1) * 64,", "multiply<1>(acc,"), ("from + (t & 1) * 64, 64)", "from, 64)")),
        RACE,
    ),
    Planted(
        8,
        "free is told before the product",
        "one",
        (
            (FREED, ""),
            (
                "for (int j = 0; j < 4; ++j) {\n                        multiply<1>",
                FREED + "for (int j = 0; j < 4; ++j) {\n                        multiply<1>",
            ),
        ),
        "it is written, and nothing orders that after a write",
    ),
    Planted(
        9,
        "another thread commits",
        "one",
        (
            ("commit(&done[t & 1]);", ""),
            (WAIT_DONE, "if (threadIdx.x == 128) {\n commit(&done[t & 1]);\n}\n" + WAIT_DONE),
        ),
        "nothing has written|" + RACE_READ,
    ),
    Planted(
        10,
        "free is told to one CTA",
        "pair",
        swap("commit_to(&free[s & 1], 3)", "commit_to(&free[s & 1], 1)"),
        "a deadlock",
    ),
    Planted(
        10,
        "done is told to one CTA",
        "pair",
        swap("commit_to(&done[t & 1], 3)", "commit_to(&done[t & 1], 1)"),
        "a deadlock",
    ),
    Planted(11, "both CTAs multiply", "pair", swap(ISSUE, "if (cta >= 0) {\n            if (elected())"), "a deadlock"),
    Planted(
        12,
        "the odd CTA waits at the pair's mbarrier",
        "pair",
        swap(
            "if (cta == 0) {\n                    announce(&full[s & 1], 40960);\n                }",
            "if (cta == 0) {\n                    announce(&full[s & 1], 40960);\n                } else {\n"
            "wait(&full[s & 1], s >> 1 & 1);\n}",
        ),
        "a deadlock",
    ),
    Planted(
        13,
        "the even CTA announces its own bytes",
        "pair",
        swap("announce(&full[s & 1], 40960)", "announce(&full[s & 1], 20480)"),
        "bytes are reported|a deadlock",
    ),
    Planted(
        14,
        "read counts one CTA",
        "pair",
        swap("init(&read[0], 2);\n        init(&read[1], 2);", "init(&read[0], 1);\n        init(&read[1], 1);"),
        "mbarrier|" + RACE_WRITE,
    ),
    Planted(
        15,
        "factors are copied behind the product",
        "scaled",
        ((COPIES, ""), ("commit(&free[i]);", COPIES + "commit(&free[i]);")),
        "nothing has written",
    ),
    Planted(16, "one slot of factors", "scaled", (("ta + i * 4", "ta"), ("tb + i * 4", "tb")), RACE_WRITE),
    Planted(
        17,
        "no proxy fence behind the turning",
        "scaled",
        drop("fence_async();  // turned"),
        "the async proxy does not see a write",
    ),
    Planted(
        18,
        "turned in place without a meeting",
        "scaled",
        drop("__syncwarp();  // all are read"),
        "it is written, and nothing orders that after a read",
    ),
    Planted(
        19,
        "factors in half of the lanes",
        "scaled",
        swap("tcgen05.cp.cta_group::1.32x128b.warpx4", "tcgen05.cp.cta_group::1.64x128b.warpx2::01_23"),
        "nothing has written|all four groups|the async proxy|nothing orders",
    ),
    Planted(20, "factors of the first 32 for all", "scaled", drop("| (unsigned)j << 29 | (unsigned)j << 4"), VALUES),
    Planted(21, "a descriptor of version 0", "one", drop(" | 1ull << 46"), "version 0"),
    Planted(
        22,
        "leading and stride offsets exchanged",
        "attention",
        swap("8192, 1024, 128)", "1024, 8192, 128)"),
        "nothing has written|nothing orders|out of bounds|mbarrier",
    ),
    Planted(
        23,
        "a step along K in elements",
        "one",
        swap("x + j * 2, y + j * 2", "x + j * 16, y + j * 16"),
        "inside of a swizzle's pattern",
    ),
    Planted(
        24,
        "a warp reads another's lanes",
        "one",
        swap("(unsigned)(warp & 3) << 21", "(unsigned)((warp + 1) & 3) << 21"),
        "a warp that reaches lanes",
    ),
    Planted(25, "powers over scores", "attention", swap("p = s + 192", "p = s"), RACE),
    Planted(26, "sums are scaled while a product runs", "attention", drop("wait(added, (j - 1) & 1);"), RACE_READ),
    Planted(27, "no wait::st", "attention", swap("stored();\n            before();", "before();"), RACE),
    Planted(
        28,
        "columns are given back before the last load",
        "one",
        drop("before();  // the end\n    __syncthreads();"),
        "tensor memory is freed, and nothing orders that after a",
    ),
    Planted(
        29,
        "columns are given back before the pair has met",
        "pair",
        drop("meet_cluster();  // before columns are given back"),
        "tensor memory is freed, and nothing orders that",
    ),
    Planted(
        30,
        "columns too few",
        "one",
        (("take<1, 128>", "take<1, 64>"), ("give_back<1, 128>", "give_back<1, 64>")),
        "is not allocated|columns 512",
    ),
    Planted(
        31,
        "M of one CTA for a pair",
        "pair",
        swap("(256u >> 4) << 24", "(128u >> 4) << 24"),
        "nothing has written|values",
    ),
    Planted(32, "the first product adds", "one", swap("0 < k || 0 < j", "true"), "nothing has written"),
    Planted(
        33,
        "B of the odd CTA at another place",
        "pair",
        swap("load_for_pair(b + (s & 1) * 2048", "load_for_pair(b + ((s ^ cta) & 1) * 2048"),
        "nothing has written|nothing orders|values",
    ),
    # The others that a model of tensor memory on CPUs was tried with.
    Planted(0, "the swizzle code of wgmma", "one", swap("swizzle == 128 ? 2", "swizzle == 128 ? 1"), "32-byte atoms"),
    Planted(
        0,
        "half of N in the instruction's descriptor",
        "one",
        swap("(64u >> 3) << 17", "(32u >> 3) << 17"),
        "nothing has written|values",
    ),
    Planted(0, "a stage is never freed", "one", drop(FREED), "a deadlock"),
    Planted(0, "an accumulator is never given back", "one", drop("arrive(&read[t & 1], 0);"), "a deadlock"),
    Planted(0, "bytes of one operand announced", "one", swap("24576", "16384"), "mbarrier|a deadlock"),
    Planted(0, "columns of B of the even CTA in both", "pair", drop(" + cta * 32"), VALUES),
    Planted(
        0,
        "the odd CTA reports to its own mbarrier",
        "pair",
        (
            ("cta * 128, &full[s & 1], 0)", "cta * 128, &full[s & 1], cta)"),
            ("cta * 32, &full[s & 1], 0)", "cta * 32, &full[s & 1], cta)"),
        ),
        "a deadlock|mbarrier",
    ),
    Planted(0, "factors are not turned", "scaled", drop("*(uint4 *)&words[lane * 4] = x;"), VALUES),
    Planted(
        0,
        "factors of B are never copied",
        "scaled",
        drop("copy_factors(tb + i * 4, matrix(fb + i * 128, 0, 128, 0));"),
        "nothing has written",
    ),
    Planted(0, "factors over sums", "scaled", swap("ta = acc + 64", "ta = acc + 60"), RACE),
    Planted(
        0, "B along N is read along K", "attention", drop(" | 1u << 16"), "values|nothing has written|nothing orders"
    ),
    Planted(
        0, "a column for each element of A", "attention", swap("i * 8, y", "i * 16, y"), "nothing has written|values"
    ),
    Planted(
        0, "sums are not scaled", "attention", swap("__uint_as_float(y[i]) * factor", "__uint_as_float(y[i])"), VALUES
    ),
    # More.
    Planted(
        0,
        "columns are taken to begin at 0",
        "one",
        swap("acc = *(volatile unsigned *)base", "acc = 0"),
        "not allocated",
    ),
    Planted(0, "columns are not given back", "one", drop("give_back<1, 128>(acc);"), "have not been freed"),
    Planted(
        0,
        "fewer columns are given back",
        "one",
        swap("give_back<1, 128>", "give_back<1, 64>"),
        "which no tcgen05.alloc",
    ),
    Planted(
        0,
        "one CTA of a pair gives back",
        "pair",
        swap("if (warp == 1) {\n        give_back", "if (warp == 1 && cta == 0) {\n        give_back"),
        "a deadlock",
    ),
    Planted(
        0,
        "a pair takes columns before it has met",
        "pair",
        drop("meet_cluster();  // before columns are taken"),
        "have not met",
    ),
    Planted(
        0,
        "all threads of a warp multiply",
        "one",
        swap("if (elected()) {\n            const", "{\n            const"),
        "nothing orders|mbarrier|more arrivals",
    ),
    Planted(
        0,
        "a commit to a CTA that is not there",
        "pair",
        swap("commit_to(&done[t & 1], 3)", "commit_to(&done[t & 1], 7)"),
        "a commit is sent to CTA 2",
    ),
    Planted(
        0,
        "a load of one CTA reports to the other",
        "pair",
        swap("tensor.2d.cta_group::2.shared", "tensor.2d.shared"),
        "reports to an mbarrier of CTA 0",
    ),
    Planted(0, "one CTA's product in a pair", "pair", swap("multiply<2>", "multiply<1>"), "has cta_group::2 too"),
    Planted(
        0,
        "read is told to one's own CTA",
        "pair",
        swap("arrive(&read[t & 1], 0)", "arrive(&read[t & 1], cta)"),
        "a deadlock",
    ),
    Planted(
        0,
        "read is told within the CTA",
        "pair",
        swap("mbarrier.arrive.release.cluster.shared::cluster.b64", "mbarrier.arrive.shared::cluster.b64"),
        RACE_WRITE,
    ),
    Planted(
        0, "waits within the CTA", "pair", swap("parity.acquire.cluster.shared", "parity.shared"), "nothing orders"
    ),
    Planted(
        0,
        "done is told before the last product",
        "one",
        (("commit(&done[t & 1]);", ""), (FREED, FREED + "\nif (k == 1) {\n commit(&done[t & 1]);\n}")),
        "nothing orders",
    ),
    Planted(
        0,
        "scores are multiplied before powers are told",
        "attention",
        drop("wait(&ready[e & 1], e >> 1 & 1);"),
        "nothing",
    ),
    Planted(
        0,
        "scores are used before they have come",
        "attention",
        swap("loaded();\n            float next", "float next"),
        "a load may still fill it",
    ),
    Planted(
        0,
        "no fence where columns are taken",
        "one",
        swap("before();\n    __syncthreads();\n    after();", "__syncthreads();"),
        "",
        "tcgen05.alloc is not asynchronous: the barrier orders it",
    ),
    Planted(
        0,
        "the permit is kept",
        "one",
        drop("tcgen05.relinquish_alloc_permit.cta_group::%2.sync.aligned;"),
        "",
        "another CTA of the SM waits longer, and nothing else changes",
    ),
    Planted(
        0,
        "mbarriers are not fenced",
        "one",
        swap("fence_async();\n    }\n    if (warp == 1) {", "}\n    if (warp == 1) {"),
        "the async proxy does not see mbarrier.init",
    ),
    Planted(
        0,
        "the mbarrier of a commit is made behind the fence",
        "one",
        (
            (
                "for (int i = 0; i < 8; ++i) {\n            init(",
                "for (int i = 0; i < 8; ++i) if (i != 4) {\n            init(",
            ),
            ("fence_async();\n    }", "fence_async();\n        init(&full[4], 1);\n    }"),
        ),
        "the async proxy does not see mbarrier.init",
    ),
)
