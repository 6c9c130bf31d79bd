"""Kernels of pairs of CTAs: how their text reads, what compilers make of it, and what it computes on the machine."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.faults.parts import change_parts
from tests.interpret.tensor_plans import lies, product_of
from tests.nvcc.compile import compile_text, requires_nvcc
from tests.ptx.blackwell_runs import count_instructions, find_disassembler
from tests.ptx.kernels import requires_nvrtc
from tests.ptx.run import compile_plan
from tests.tensor.pair_faults import FAULTS, VALUES, PairFault
from tests.tensor.pairs import ONE_PAIR, PAIRS, Pairs, plan_pair
from tests.tensor.plans import Gemm, plan_gemm
from tilegen.gpu import compile_cubin, find_compilers
from tilegen.layouts import find_atom
from tilegen.pipeline import load
from tilegen.plan import TENSOR, Arrive, Plan, Role, Sync, TensorMma, Tma, UnknownStep, When, find_allocator, flatten
from tilegen.planner import plan_spec
from tilegen.ptx import PtxError, PtxFault
from tilegen.render import render
from tilegen.render.elections import elect
from tilegen.render.kernel import render_passes
from tilegen.render.page import Page
from tilegen.spec.names import reserved_reason
from tilegen.templating import read_template

PLAN = plan_pair(ONE_PAIR)
SPEC = Path(__file__).parents[2] / "specs" / "hgemm_blackwell_pair.yaml"
TENSOR_MAP = "struct alignas(64) TensorMap { unsigned long long opaque[16]; };"
MACROS = re.findall(r"^//% macro (\w+)\(name, ctas", read_template("prelude.cuh.j2"), re.M)
every_pair = pytest.mark.parametrize("name", PAIRS)


def kernel_of(text: str) -> str:
    return text[text.index('extern "C" __global__') :]


def without_end(plan: Plan, *names: str) -> Plan:
    """The plan without the last meeting of the cluster, in all roles or in these."""
    others = [replace(r, steps=tuple(s for s in r.steps if not isinstance(s, Sync))) for r in plan.roles]
    roles = zip(plan.roles, others, strict=True)
    return replace(plan, roles=tuple(b if not names or a.name in names else a for a, b in roles))


# ---------------------------------------------------------------- how it reads
def test_every_instruction_on_tensor_memory_is_of_a_pair() -> None:
    text = render(PLAN)
    assert set(re.findall(r"tcgen05\.[\w.]*cta_group::(\d)", text)) == {"2"}
    assert len(re.findall(r"tcgen05\.\w+\.cta_group::2", text)) == 5  # alloc, relinquish, dealloc, mma, commit
    assert set(re.findall(r"cta_group::(\d)", render(plan_gemm(Gemm())))) == {"1"}


def test_columns_are_taken_when_both_have_started_and_given_back_when_both_have_met() -> None:
    text = kernel_of(render(PLAN))
    assert (
        "        fence_mbarrier_init();\n    }\n    sync_cluster();  // both CTAs of each pair have started\n"
        "    if (threadIdx.x / 32 == 1) {\n        tmem_alloc_pair<128>(tmem_base);\n        tmem_alloc_done_pair();\n"
        "    }\n    tmem_fence_before();\n    sync_cluster();\n    tmem_fence_after();\n"
        "    const unsigned acc = *tmem_base;\n"
    ) in text
    assert text.endswith(
        "        tma_wait<0>();\n        tmem_fence_before();\n        sync_cluster();\n        tmem_fence_after();\n"
        "    }\n\n    if (threadIdx.x / 32 == 1) {\n        tmem_free_pair<128>(*tmem_base);\n    }\n}\n"
    )
    assert text.count("sync_cluster();") == 2 + len(PLAN.roles) and "__syncthreads" not in text


@pytest.mark.parametrize("names", [(), ("load",), ("idle",), ("store",)])
def test_a_pair_meets_before_columns_are_given_back_whatever_a_plan_ends_with(names: tuple[str, ...]) -> None:
    text = kernel_of(render(without_end(PLAN, *names)))
    assert (
        "    }\n\n    __syncwarp();\n    tmem_fence_before();\n    sync_cluster();\n    tmem_fence_after();\n"
        "    if (threadIdx.x / 32 == 1) {\n        tmem_free_pair"
    ) in text


def test_a_meeting_that_is_not_fenced_does_not_do() -> None:
    def other(x: object) -> object:
        steps = (*x.steps[:-3], Sync("cluster")) if isinstance(x, Role) and x.name == "store" else None
        return replace(x, steps=steps) if steps else None  # type: ignore[type-var]

    assert "    }\n\n    __syncwarp();\n    tmem_fence_before();\n    sync_cluster();\n" in render(
        change_parts(PLAN, other)
    )


def test_without_mbarriers_the_pair_meets_too() -> None:
    role = Role("all", 128, ())
    text = kernel_of(render(replace(PLAN, roles=(role,), barriers=(), memories=())))
    assert text.count("sync_cluster();") == 3 and "__syncthreads" not in text
    assert (
        "{\n    __shared__ unsigned tmem_base[1];  // where tensor memory begins\n\n    sync_cluster();  // both"
        in text
    )


@pytest.mark.parametrize(
    ("name", "form", "said"),
    [
        ("bf16", "0x10100490u", "m256n64k16, f32 of bf16 and bf16"),
        ("wide", "0x10400490u", "m256n256k16, f32 of bf16 and bf16"),
        ("f16", "0x10100010u", "m256n64k16, f32 of f16 and f16"),
        ("tf32", "0x10100910u", "m256n64k8, f32 of tf32 and tf32"),
        ("e4m3 by e5m2", "0x10100410u", "m256n64k32, f32 of e4m3 and e5m2"),
        ("s8 by u8", "0x101000a0u", "m256n64k32, s32 of s8 and u8"),
    ],
)
def test_a_product_says_the_shape_of_both(name: str, form: str, said: str) -> None:
    text, kind = render(plan_pair(PAIRS[name])), find_atom(PAIRS[name].atom).ptx_kind
    assert re.search(rf"// {said}\n +tcgen05_mma_{kind}_pair\(acc, [^;]*, {form}, 0 < k \* 4 \+ j\);", text)
    assert f"tcgen05.mma.cta_group::2.kind::{kind} [%0], %1, %2, %3, adds;" in text


def test_loads_and_arrivals_name_the_even_cta_and_commits_both() -> None:
    text = render(PLAN)
    assert "tma_load_2d_pair(sa, &A_map, k * 64, t * 256 + cbx * 128, &full[s & 1], 0);" in text
    assert "mbarrier_arrive_peer_released(&read[t & 1], 0);" in text
    assert "tcgen05_commit_to_pair(&free[s & 1], 3);" in text and "tcgen05_commit_to_pair(&done[t & 1], 3);" in text
    text = render(plan_pair(PAIRS["two pairs"]))
    assert "&B_map, k * 64, (cbx & 1) * 32, &full[s & 1], (cbx >> 1) * 2);" in text
    assert "tcgen05_commit_to_pair(&free[s & 1], 3 << ((cbx >> 1) * 2));" in text
    assert "mbarrier_arrive_peer_released(&read[t & 1], (cbx >> 1) * 2);" in text


def test_a_commit_to_one_mbarrier_has_no_mask() -> None:
    def other(x: object) -> object:
        return replace(x, peers=None) if isinstance(x, Arrive) and x.landed == TENSOR else None

    text = render(change_parts(PLAN, other))
    assert "tcgen05_commit_pair(&free[s & 1]);" in text
    assert "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.b64 [%0];" in text


def test_products_of_one_cta_are_committed_to_peers_too() -> None:
    """A cluster of kernels of one CTA: the mbarriers are made for all of it."""

    def other(x: object) -> object:
        found = isinstance(x, Arrive) and x.landed == TENSOR and x.slot.barrier.name == "free"
        return replace(x, peers=PLAN_PEERS) if found else None  # type: ignore[type-var]

    text = render(replace(change_parts(plan_gemm(Gemm()), other), cluster=(2, 1, 1)))
    assert "tcgen05_commit_to(&free[k & 1], 3);" in text and "tcgen05_commit(done);" in text
    assert "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%0], %1;" in text
    assert "fence_mbarrier_init();\n    }\n    if (threadIdx.x / 32 == 1) {\n        tmem_alloc<64>" in text
    assert "    tmem_fence_before();\n    sync_cluster();\n    tmem_fence_after();\n    const unsigned acc" in text


PLAN_PEERS = next(s.peers for s in flatten(PLAN.roles[1].steps) if isinstance(s, Arrive))


def test_what_has_no_text_is_an_error() -> None:
    def copies(x: object) -> object:
        return replace(x, landed="cp.async") if isinstance(x, Arrive) and x.landed == TENSOR else None

    def alone(x: object) -> object:
        return replace(x, ctas=1) if isinstance(x, TensorMma) else None

    def narrow(x: object) -> object:
        return replace(x, atom="tcgen05.m128n64k16.f32.bf16.bf16") if isinstance(x, TensorMma) else None

    def halved(x: object) -> object:
        return replace(x, b_lies=lies(16, "bfloat16")) if isinstance(x, TensorMma) else None

    with pytest.raises(UnknownStep):
        render(change_parts(PLAN, copies))
    for other in (alone, narrow, halved):
        with pytest.raises(AssertionError, match=r"(of|by) 2 CTAs"):
            render(change_parts(PLAN, other))
    load, _, _, store = PLAN.roles
    with pytest.raises(AssertionError, match="the other CTA of a pair"):
        render(replace(PLAN, roles=(load, store), cta_group=1))


def test_kernels_of_one_cta_and_of_pairs_in_one_file_have_functions_of_their_own() -> None:
    text = render_passes([plan_gemm(Gemm()), PLAN], [])
    for macro in ("tmem_alloc<64>(", "tmem_alloc_pair<128>(", "tcgen05_mma_f16(", "tcgen05_mma_f16_pair("):
        assert macro in text
    bodies = re.findall(r"void (t\w+)\([^{]*\{[^}]*?cta_group::(\d)", text)
    assert bodies and all((group == "2") == name.endswith("_pair") for name, group in bodies)


def test_names_of_functions_of_pairs_are_reserved() -> None:
    names = set(re.findall(r"\b(tmem_\w+|tcgen05_\w+|tma_\w+)\(", render(PLAN)))
    assert {"tmem_free_pair", "tcgen05_commit_to_pair", "tma_load_2d_pair"} <= names
    assert all(reserved_reason(name) for name in names)


# ---------------------------------------------------------------- who starts what
def test_one_thread_starts_all_of_a_role_under_a_condition_on_the_cta() -> None:
    for plan in map(plan_pair, (ONE_PAIR, PAIRS["two pairs"])):
        load, mma, _, store = (elect(role, "elected") for role in plan.roles)
        for role, is_of_even in ((load, True), (mma, True), (store, False)):
            conditions = {str(s.condition) for s in flatten(role.steps) if isinstance(s, When)}
            assert "elected" in conditions and len(conditions) == 1 + is_of_even
            assert any("cbx" in c for c in conditions) == is_of_even
        assert find_allocator(plan) == 1


# ---------------------------------------------------------------- compilers
@pytest.mark.skipif(not find_compilers(), reason="neither NVRTC nor nvcc is here")
@pytest.mark.sweep(2)
@every_pair
def test_every_kind_compiles_without_spills(name: str) -> None:
    plan = plan_pair(PAIRS[name])
    cubin = compile_cubin(render(plan), plan.arch, plan.name)
    assert (cubin.stack_bytes, cubin.spill_store_bytes, cubin.spill_load_bytes) == (0, 0, 0)
    assert not cubin.losses and "warning" not in cubin.log


@pytest.mark.sweep(2)
@requires_nvcc
@every_pair
def test_nvcc_warns_of_nothing_and_spills_nothing(name: str) -> None:
    plan = plan_pair(PAIRS[name])
    report = compile_text(render(plan), plan.arch)
    assert (report.stack, report.spills) == (0, 0), report


@requires_nvrtc
@pytest.mark.skipif(find_disassembler() is None, reason="there is no nvdisasm")
@pytest.mark.parametrize("name", ["bf16", "two pairs", "wide"])
def test_machine_code_has_the_instructions_of_a_kernel_by_hand(name: str) -> None:
    """Families of a larger kernel for the same work, as nvcc 13.0 makes them; nothing stands in a loop over threads."""
    plan = plan_pair(PAIRS[name])
    found = count_instructions(compile_cubin(render(plan), plan.arch, plan.name).image)
    panels = PAIRS[name].n // 32
    mine = ("UTCH", "UTCB", "UTCCP", "LDTM", "STTM", "UTMALDG", "UTMASTG", "UTCATOMSWS.2CTA")
    assert {op: n for op, n in found.items() if op.startswith(mine)} == {
        "UTCHMMA.2CTA": 4, "UTCBAR.2CTA.MULTICAST": 2, "LDTM.x32": panels, "UTMALDG.2D.2CTA": 2, "UTMASTG.2D": panels,
        "UTCATOMSWS.2CTA.FIND_AND_SET.ALIGN": 2,
    }  # fmt: skip
    assert found["BRA.U.ANY"] == 0


@requires_nvrtc
@pytest.mark.skipif(find_disassembler() is None, reason="there is no nvdisasm")
def test_the_spec_has_them_too() -> None:
    plan = plan_spec(load(SPEC))
    cubin = compile_cubin(render(plan), plan.arch, plan.name)
    found = count_instructions(cubin.image)
    wanted = {
        "UTCHMMA.2CTA": 4, "UTCBAR.2CTA.MULTICAST": 2, "UTMALDG.2D.2CTA": 2, "UTMASTG.2D": 4, "LDTM.x64": 4,
        "BRA.U.ANY": 0, "UTCHMMA": 0, "UTCBAR": 0, "UTMALDG.2D": 0,
    }  # fmt: skip
    assert {op: found[op] for op in wanted} == wanted
    assert cubin.spill_store_bytes == cubin.spill_load_bytes == 0 and not cubin.losses


@requires_nvcc
def test_nvcc_warns_of_nothing_in_the_spec() -> None:
    plan = plan_spec(load(SPEC))
    report = compile_text(render(plan), plan.arch)
    assert (report.stack, report.spills) == (0, 0), report


@pytest.mark.skipif(not find_compilers(), reason="neither NVRTC nor nvcc is here")
@pytest.mark.parametrize("ctas", [1, 2])
def test_every_function_on_tensor_memory_compiles(ctas: int) -> None:
    """Those too that no kernel of pairs calls so far; one thread of a kernel calls each, with zeros."""
    page = Page(replace(PLAN, cta_group=ctas))
    names = [page.use_tensor(macro) for macro in MACROS]
    names += [page.use_as(f"tma_load_{n}d_pair", "tma_load", n, ctas) for n in range(1, 6)]
    text = "\n".join(page.helpers.values())
    for name in names:
        found = re.search(rf"(template <int columns> )?__device__ __forceinline__ void {name}\(([^)]*)\)", text)
        assert found, name
        zeros = ", ".join("0" for x in found[2].split(",") if x)
        text += f"\n__device__ void call_{name}() {{ {name}{'<32>' * bool(found[1])}({zeros}); }}"
    calls = "".join(f" call_{name}();" for name in names)
    text = f'{TENSOR_MAP}\n{text}\nextern "C" __global__ void __cluster_dims__(2, 1, 1) k() {{{calls} }}\n'
    assert len(names) == 20 and not compile_cubin(text, "sm_100a", "k").losses
    if find_disassembler():
        found_all = count_instructions(compile_cubin(text, "sm_100a", "k").image)
        mine = {op for op in found_all if op.startswith(("UTC", "UTMALDG")) and not op.endswith((".AND", ".ALIGN"))}
        assert mine and all((".2CTA" in op) == (ctas == 2) for op in mine), mine


# ---------------------------------------------------------------- the machine
def run(pairs: Pairs, *parts: tuple[str, str]) -> bool:
    """Is the product right, where parts of the text are others?"""
    drawn = pairs.draw()
    got = compile_plan(plan_pair(pairs), *parts).run(drawn)["C"]
    return bool(np.array_equal(got.reshape(-1, pairs.n), product_of(drawn)))


@requires_nvrtc
@pytest.mark.sweep(3)
@every_pair
def test_products_are_right(name: str) -> None:
    assert run(PAIRS[name])


def find(fault: PairFault) -> str:
    """What the machine says of a fault; "" where the result is right."""
    try:
        return "" if run(ONE_PAIR, *fault.parts) else VALUES
    except (PtxFault, PtxError) as error:
        return str(error)


@requires_nvrtc
@pytest.mark.sweep(8)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f.name)
def test_faults_are_found_or_change_nothing(fault: PairFault) -> None:
    found = find(fault)
    if fault.said:
        assert re.search(fault.said, found), found
    else:
        assert fault.why and not found


def test_faults_of_pairs_of_the_list_are_tried() -> None:
    assert {10, 11, 12, 13, 14, 29, 31, 33} == {f.number for f in FAULTS} - {0}
    assert len({f.name for f in FAULTS}) == len(FAULTS)
    assert any(isinstance(s, Tma) and s.rank is not None for s in flatten(PLAN.roles[0].steps))
