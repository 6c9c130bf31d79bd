"""Four small kernels for sm_100a, in CUDA: a product by one CTA, by a pair, one with scale factors, attention."""

from __future__ import annotations

PRELUDE = r"""
typedef unsigned short bf16;
typedef unsigned long long u64;
struct alignas(64) Map { u64 opaque[16]; };
#define DO __device__ __forceinline__ void
__device__ __forceinline__ unsigned at(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ __forceinline__ unsigned at_peer(const void *p, int rank)
{
    unsigned y;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(y) : "r"(at(p)), "r"(rank));
    return y;
}
DO init(u64 *bar, int n) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at(bar)), "r"(n) : "memory"); }
DO wait(u64 *bar, int parity)
{
    asm volatile("{\n.reg .pred p;\nagain:\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%0], %1;\n"
                 "@!p bra again;\n}" ::"r"(at(bar)), "r"(parity) : "memory");
}
DO announce(u64 *bar, int bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at(bar)), "r"(bytes) : "memory");
}
DO arrive(u64 *bar, int rank)
{
    asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(at_peer(bar, rank)) : "memory");
}
DO load(void *to, const Map &map, int x, int y, u64 *bar)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3}], [%4];"
                 ::"r"(at(to)), "l"(&map), "r"(x), "r"(y), "r"(at(bar)) : "memory");
}
DO load_for_pair(void *to, const Map &map, int x, int y, u64 *bar, int rank)
{
    asm volatile("cp.async.bulk.tensor.2d.cta_group::2.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3}], [%4];"
                 ::"r"(at(to)), "l"(&map), "r"(x), "r"(y), "r"(at_peer(bar, rank)) : "memory");
}
DO fence_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
DO fence_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
DO meet_cluster() { asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory"); }
DO meet_store() { asm volatile("bar.sync 1, 128;" ::: "memory"); }
__device__ __forceinline__ bool elected()
{
    unsigned y;
    asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xffffffff;\nselp.b32 %0, 1, 0, p;\n}" : "=r"(y));
    return y;
}
template <int group, int columns> DO take(unsigned *to)
{
    asm volatile("tcgen05.alloc.cta_group::%2.sync.aligned.shared::cta.b32 [%0], %1;\n"
                 "tcgen05.relinquish_alloc_permit.cta_group::%2.sync.aligned;"
                 ::"r"(at(to)), "n"(columns), "n"(group) : "memory");
}
template <int group, int columns> DO give_back(unsigned from)
{
    asm volatile("tcgen05.dealloc.cta_group::%2.sync.aligned.b32 %0, %1;"
                 ::"r"(from), "n"(columns), "n"(group) : "memory");
}
DO before() { asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory"); }
DO after() { asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory"); }
DO loaded() { asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory"); }
DO stored() { asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory"); }
DO get(unsigned (&x)[8], unsigned from)
{
    asm volatile("tcgen05.ld.sync.aligned.32x32b.x8.b32 {%0, %1, %2, %3, %4, %5, %6, %7}, [%8];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]), "=r"(x[4]), "=r"(x[5]), "=r"(x[6]), "=r"(x[7])
                 : "r"(from) : "memory");
}
DO keep(unsigned (&x)[8])
{
    for (int i = 0; i < 8; ++i) {
        asm volatile("" : "+r"(x[i]) :: "memory");
    }
}
DO put(unsigned to, const unsigned (&x)[8])
{
    asm volatile("tcgen05.st.sync.aligned.32x32b.x8.b32 [%0], {%1, %2, %3, %4, %5, %6, %7, %8};"
                 ::"r"(to), "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(x[4]), "r"(x[5]), "r"(x[6]), "r"(x[7])
                 : "memory");
}
__device__ __forceinline__ u64 matrix(const void *p, unsigned leading, unsigned stride, int swizzle)
{
    const u64 code = swizzle == 128 ? 2 : swizzle == 64 ? 4 : swizzle == 32 ? 6 : 0;
    return code << 61 | 1ull << 46 | (u64)(stride >> 4) << 32 | (u64)(leading >> 4) << 16 | at(p) >> 4;
}
template <int group> DO multiply(unsigned d, u64 a, u64 b, unsigned kind, bool adds)
{
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %4, 0;\ntcgen05.mma.cta_group::%5.kind::f16 [%0], %1, %2, %3, p;\n}"
                 ::"r"(d), "l"(a), "l"(b), "r"(kind), "r"((int)adds), "n"(group) : "memory");
}
DO multiply_cells(unsigned d, unsigned a, u64 b, unsigned kind, bool adds)
{
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %4, 0;\ntcgen05.mma.cta_group::1.kind::f16 [%0], [%1], %2, %3, p;\n}"
                 ::"r"(d), "r"(a), "l"(b), "r"(kind), "r"((int)adds) : "memory");
}
DO multiply_scaled(unsigned d, u64 a, u64 b, unsigned kind, unsigned fa, unsigned fb, bool adds)
{
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %6, 0;\n"
                 "tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale.scale_vec::1X [%0], %1, %2, %3, [%4], [%5], p;\n}"
                 ::"r"(d), "l"(a), "l"(b), "r"(kind), "r"(fa), "r"(fb), "r"((int)adds) : "memory");
}
DO copy_factors(unsigned to, u64 from)
{
    asm volatile("tcgen05.cp.cta_group::1.32x128b.warpx4 [%0], %1;" ::"r"(to), "l"(from) : "memory");
}
DO commit(u64 *bar)
{
    asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];"
                 ::"r"(at(bar)) : "memory");
}
DO commit_to(u64 *bar, int mask)
{
    asm volatile("tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%0], %1;"
                 ::"r"(at(bar)), "h"((unsigned short)mask) : "memory");
}
__device__ __forceinline__ unsigned pack(float low, float high)
{
    unsigned y;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
    return y;
}
// Columns of one lane, from tensor to global memory.
DO store(float *to, unsigned from, int columns)
{
    #pragma unroll 1
    for (int c = 0; c < columns; c += 8) {
        unsigned x[8];
        get(x, from + c);
        loaded();
        keep(x);
        for (int i = 0; i < 8; ++i) {
            to[c + i] = __uint_as_float(x[i]);
        }
    }
}
#define KERNEL extern "C" __global__ void __launch_bounds__(256, 1)
#define CONST const __grid_constant__ Map
"""

# Tiles of 128 x 64, three of them; K in three steps of 64, two stages, two accumulators. Threads from 128 on store.
ONE = r"""
KERNEL one(CONST a_map, CONST b_map, float *out)
{
    extern __shared__ __align__(1024) unsigned char smem[];
    bf16 *const a = (bf16 *)smem, *const b = (bf16 *)(smem + 32768);
    u64 *const full = (u64 *)(smem + 49152), *const free = full + 2, *const done = full + 4, *const read = full + 6;
    unsigned *const base = (unsigned *)(full + 8);
    const int warp = threadIdx.x >> 5;
    if (threadIdx.x == 0) {
        for (int i = 0; i < 8; ++i) {
            init(&full[i], 1);
        }
        fence_async();
    }
    if (warp == 1) {
        take<1, 128>(base);
    }
    before();
    __syncthreads();
    after();
    const unsigned acc = *(volatile unsigned *)base;
    if (warp == 0) {
        if (elected()) {
            #pragma unroll 1
            for (int s = 0; s < 9; ++s) {
                wait(&free[s & 1], ((s >> 1) + 1) & 1);
                announce(&full[s & 1], 24576);
                load(a + (s & 1) * 8192, a_map, s % 3 * 64, 0, &full[s & 1]);
                load(b + (s & 1) * 4096, b_map, s % 3 * 64, s / 3 * 64, &full[s & 1]);
            }
        }
    } else if (warp == 1) {
        if (elected()) {
            const unsigned kind = 1u << 4 | 1u << 7 | 1u << 10 | (64u >> 3) << 17 | (128u >> 4) << 24;
            #pragma unroll 1
            for (int t = 0; t < 3; ++t) {
                wait(&read[t & 1], ((t >> 1) + 1) & 1);
                after();
                #pragma unroll 1
                for (int k = 0; k < 3; ++k) {
                    const int s = t * 3 + k;
                    wait(&full[s & 1], s >> 1 & 1);
                    after();  // of full
                    const u64 x = matrix(a + (s & 1) * 8192, 0, 1024, 128);
                    const u64 y = matrix(b + (s & 1) * 4096, 0, 1024, 128);
                    for (int j = 0; j < 4; ++j) {
                        multiply<1>(acc + (t & 1) * 64, x + j * 2, y + j * 2, kind, 0 < k || 0 < j);
                    }
                    commit(&free[s & 1]);
                }
                commit(&done[t & 1]);
            }
        }
    } else if (warp >= 4) {
        const unsigned from = acc + ((unsigned)(warp & 3) << 21);
        #pragma unroll 1
        for (int t = 0; t < 3; ++t) {
            wait(&done[t & 1], t >> 1 & 1);
            after();  // of done
            store(out + (threadIdx.x - 128) * 192 + t * 64, from + (t & 1) * 64, 64);
            before();  // read
            meet_store();
            if (threadIdx.x == 128) {
                arrive(&read[t & 1], 0);
            }
        }
    }
    __syncwarp();
    before();  // the end
    __syncthreads();
    if (warp == 1) {
        give_back<1, 128>(acc);
    }
}
"""

# Tiles of 256 x 64 of a pair of CTAs, three of them: 128 rows of A and 32 columns of B in each.
PAIR = r"""
KERNEL __cluster_dims__(2, 1, 1) pair(CONST a_map, CONST b_map, float *out)
{
    extern __shared__ __align__(1024) unsigned char smem[];
    bf16 *const a = (bf16 *)smem, *const b = (bf16 *)(smem + 32768);
    u64 *const full = (u64 *)(smem + 40960), *const free = full + 2, *const done = full + 4, *const read = full + 6;
    unsigned *const base = (unsigned *)(full + 8);
    const int warp = threadIdx.x >> 5, cta = blockIdx.x;
    if (threadIdx.x == 0) {
        for (int i = 0; i < 6; ++i) {
            init(&full[i], 1);
        }
        init(&read[0], 2);
        init(&read[1], 2);
        fence_async();
        fence_init();
    }
    meet_cluster();  // before columns are taken
    if (warp == 1) {
        take<2, 128>(base);
    }
    before();
    meet_cluster();
    after();
    const unsigned acc = *(volatile unsigned *)base;
    if (warp == 0) {
        if (elected()) {
            #pragma unroll 1
            for (int s = 0; s < 9; ++s) {
                wait(&free[s & 1], ((s >> 1) + 1) & 1);
                if (cta == 0) {
                    announce(&full[s & 1], 40960);
                }
                load_for_pair(a + (s & 1) * 8192, a_map, s % 3 * 64, cta * 128, &full[s & 1], 0);
                load_for_pair(b + (s & 1) * 2048, b_map, s % 3 * 64, s / 3 * 64 + cta * 32, &full[s & 1], 0);
            }
        }
    } else if (warp == 1) {
        if (cta == 0) {
            if (elected()) {
                const unsigned kind = 1u << 4 | 1u << 7 | 1u << 10 | (64u >> 3) << 17 | (256u >> 4) << 24;
                #pragma unroll 1
                for (int t = 0; t < 3; ++t) {
                    wait(&read[t & 1], ((t >> 1) + 1) & 1);
                    after();
                    #pragma unroll 1
                    for (int k = 0; k < 3; ++k) {
                        const int s = t * 3 + k;
                        wait(&full[s & 1], s >> 1 & 1);
                        after();
                        const u64 x = matrix(a + (s & 1) * 8192, 0, 1024, 128);
                        const u64 y = matrix(b + (s & 1) * 2048, 0, 1024, 128);
                        for (int j = 0; j < 4; ++j) {
                            multiply<2>(acc + (t & 1) * 64, x + j * 2, y + j * 2, kind, 0 < k || 0 < j);
                        }
                        commit_to(&free[s & 1], 3);
                    }
                    commit_to(&done[t & 1], 3);
                }
            }
        }
    } else if (warp >= 4) {
        const unsigned from = acc + ((unsigned)(warp & 3) << 21);
        #pragma unroll 1
        for (int t = 0; t < 3; ++t) {
            wait(&done[t & 1], t >> 1 & 1);
            after();
            store(out + (cta * 128 + threadIdx.x - 128) * 192 + t * 64, from + (t & 1) * 64, 64);
            before();
            meet_store();
            if (threadIdx.x == 128) {
                arrive(&read[t & 1], 0);
            }
        }
    }
    __syncwarp();
    before();
    meet_cluster();  // before columns are given back
    if (warp == 1) {
        give_back<2, 128>(acc);
    }
}
"""

# A tile of 128 x 64 of e4m3, K in four steps of 128; factors for 32 along K are turned by a warp and copied.
SCALED = r"""
DO turn(int lane, unsigned *words)
{
    uint4 x;
    x.x = words[lane];
    x.y = words[32 + lane];
    x.z = words[64 + lane];
    x.w = words[96 + lane];
    __syncwarp();  // all are read
    *(uint4 *)&words[lane * 4] = x;
}
KERNEL scaled(CONST a_map, CONST b_map, CONST fa_map, CONST fb_map, float *out)
{
    extern __shared__ __align__(1024) unsigned char smem[];
    unsigned char *const a = smem, *const b = smem + 32768;
    unsigned *const fa = (unsigned *)(smem + 49152), *const fb = fa + 256;
    u64 *const full = (u64 *)(fb + 256), *const turned = full + 2, *const free = full + 4, *const done = full + 6;
    unsigned *const base = (unsigned *)(full + 7);
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
    if (threadIdx.x == 0) {
        for (int i = 0; i < 7; ++i) {
            init(&full[i], 1);
        }
        fence_async();
    }
    if (warp == 1) {
        take<1, 128>(base);
    }
    before();
    __syncthreads();
    after();
    const unsigned acc = *(volatile unsigned *)base, ta = acc + 64, tb = acc + 72;
    if (warp == 0) {
        if (elected()) {
            #pragma unroll 1
            for (int s = 0; s < 4; ++s) {
                const int i = s & 1;
                wait(&free[i], ((s >> 1) + 1) & 1);
                announce(&full[i], 16384 + 8192 + 512 + 512);
                load(a + i * 16384, a_map, s * 128, 0, &full[i]);
                load(b + i * 8192, b_map, s * 128, 0, &full[i]);
                load(fa + i * 128, fa_map, 0, s, &full[i]);
                load(fb + i * 128, fb_map, 0, s, &full[i]);
            }
        }
    } else if (warp == 1) {
        if (elected()) {
            const unsigned kind = (64u >> 3) << 17 | 1u << 23 | (128u >> 4) << 24;
            #pragma unroll 1
            for (int s = 0; s < 4; ++s) {
                const int i = s & 1;
                wait(&turned[i], s >> 1 & 1);
                wait(&full[i], s >> 1 & 1);
                after();
                copy_factors(ta + i * 4, matrix(fa + i * 128, 0, 128, 0));
                copy_factors(tb + i * 4, matrix(fb + i * 128, 0, 128, 0));
                const u64 x = matrix(a + i * 16384, 0, 1024, 128), y = matrix(b + i * 8192, 0, 1024, 128);
                for (int j = 0; j < 4; ++j) {
                    multiply_scaled(acc, x + j * 2, y + j * 2, kind | (unsigned)j << 29 | (unsigned)j << 4,
                        ta + i * 4, tb + i * 4, 0 < s || 0 < j);
                }
                commit(&free[i]);
            }
            commit(done);
        }
    } else if (warp == 2) {
        #pragma unroll 1
        for (int s = 0; s < 4; ++s) {
            const int i = s & 1;
            wait(&full[i], s >> 1 & 1);
            turn(lane, fa + i * 128);
            turn(lane, fb + i * 128);
            fence_async();  // turned
            __syncwarp();
            if (lane == 0) {
                arrive(&turned[i], 0);
            }
        }
    } else if (warp >= 4) {
        wait(done, 0);
        after();
        store(out + (threadIdx.x - 128) * 64, acc + ((unsigned)(warp & 3) << 21), 64);
    }
    __syncwarp();
    before();
    __syncthreads();
    if (warp == 1) {
        give_back<1, 128>(acc);
    }
}
"""

# 128 rows of attention with a head of 64: scores of 64 keys in float32, their powers in bf16 as A of a second product.
ATTENTION = r"""
DO load_tile(bf16 *to, const Map &map, int y, u64 *bar)
{
    announce(bar, 8192);
    load(to, map, 0, y, bar);
}
__device__ __forceinline__ float power(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
KERNEL attention(int tiles, float scale, CONST q_map, CONST k_map, CONST v_map, float *out)
{
    extern __shared__ __align__(1024) unsigned char smem[];
    bf16 *const q = (bf16 *)smem, *const k = (bf16 *)(smem + 16384), *const v = (bf16 *)(smem + 32768);
    u64 *const fq = (u64 *)(smem + 49152), *const fk = fq + 1, *const fv = fq + 3;
    u64 *const ek = fq + 5, *const ev = fq + 7;
    u64 *const scored = fq + 9, *const ready = fq + 11, *const added = fq + 13;
    unsigned *const base = (unsigned *)(fq + 14);
    const int warp = threadIdx.x >> 5;
    if (threadIdx.x == 0) {
        for (int i = 0; i < 14; ++i) {
            init(&fq[i], 1);
        }
        fence_async();
    }
    if (warp == 1) {
        take<1, 256>(base);
    }
    before();
    __syncthreads();
    after();
    const unsigned s = *(volatile unsigned *)base, o = s + 128, p = s + 192;
    if (warp == 0) {
        if (elected()) {
            announce(fq, 16384);
            load(q, q_map, 0, 0, fq);
            #pragma unroll 1
            for (int j = 0; j < tiles; ++j) {
                wait(&ek[j & 1], ((j >> 1) + 1) & 1);
                load_tile(k + (j & 1) * 4096, k_map, j * 64, &fk[j & 1]);
                wait(&ev[j & 1], ((j >> 1) + 1) & 1);
                load_tile(v + (j & 1) * 4096, v_map, j * 64, &fv[j & 1]);
            }
        }
    } else if (warp == 1) {
        if (elected()) {
            const unsigned kind = 1u << 4 | 1u << 7 | 1u << 10 | (64u >> 3) << 17 | (128u >> 4) << 24;
            wait(fq, 0);
            #pragma unroll 1
            for (int j = 0; j < tiles + 1; ++j) {
                if (j < tiles) {
                    wait(&fk[j & 1], j >> 1 & 1);
                    after();
                    const u64 x = matrix(q, 0, 1024, 128), y = matrix(k + (j & 1) * 4096, 0, 1024, 128);
                    for (int i = 0; i < 4; ++i) {
                        multiply<1>(s + (j & 1) * 64, x + i * 2, y + i * 2, kind, 0 < i);
                    }
                    commit(&ek[j & 1]);
                    commit(&scored[j & 1]);
                }
                if (0 < j) {
                    const int e = j - 1;
                    wait(&fv[e & 1], e >> 1 & 1);
                    wait(&ready[e & 1], e >> 1 & 1);
                    after();
                    const u64 y = matrix(v + (e & 1) * 4096, 8192, 1024, 128);
                    for (int i = 0; i < 4; ++i) {
                        multiply_cells(o, p + (e & 1) * 32 + i * 8, y + i * 128, kind | 1u << 16, 0 < e || 0 < i);
                    }
                    commit(&ev[e & 1]);
                    commit(added);
                }
            }
        }
    } else if (warp >= 4) {
        const unsigned from = (unsigned)(warp & 3) << 21;
        float most = __int_as_float(0xff800000), sum = 0.0f;
        #pragma unroll 1
        for (int j = 0; j < tiles; ++j) {
            wait(&scored[j & 1], j >> 1 & 1);
            after();
            unsigned x[8][8];
            for (int c = 0; c < 8; ++c) {
                get(x[c], s + from + (j & 1) * 64 + c * 8);
            }
            loaded();
            float next = most, part = 0.0f;
            for (int c = 0; c < 8; ++c) {
                keep(x[c]);
                for (int i = 0; i < 8; ++i) {
                    next = fmaxf(next, __uint_as_float(x[c][i]));
                }
            }
            const float factor = power((most - next) * scale);
            for (int c = 0; c < 8; ++c) {
                for (int i = 0; i < 8; ++i) {
                    const float y = power((__uint_as_float(x[c][i]) - next) * scale);
                    part += y;
                    x[c][i] = __float_as_uint(y);
                }
            }
            sum = sum * factor + part;
            most = next;
            for (int c = 0; c < 4; ++c) {
                unsigned y[8];
                for (int i = 0; i < 8; ++i) {
                    const int e = c * 16 + i * 2;
                    y[i] = pack(__uint_as_float(x[e >> 3][e & 7]), __uint_as_float(x[e >> 3][(e & 7) + 1]));
                }
                put(p + from + (j & 1) * 32 + c * 8, y);
            }
            if (0 < j) {
                wait(added, (j - 1) & 1);
                after();
                #pragma unroll 1
                for (int c = 0; c < 64; c += 8) {
                    unsigned y[8];
                    get(y, o + from + c);
                    loaded();
                    keep(y);
                    for (int i = 0; i < 8; ++i) {
                        y[i] = __float_as_uint(__uint_as_float(y[i]) * factor);
                    }
                    put(o + from + c, y);
                }
            }
            stored();
            before();
            meet_store();
            if (threadIdx.x == 128) {
                arrive(&ready[j & 1], 0);
            }
        }
        wait(added, (tiles - 1) & 1);
        after();
        #pragma unroll 1
        for (int c = 0; c < 64; c += 8) {
            unsigned y[8];
            get(y, o + from + c);
            loaded();
            keep(y);
            for (int i = 0; i < 8; ++i) {
                out[(threadIdx.x - 128) * 64 + c + i] = __uint_as_float(y[i]) / sum;
            }
        }
    }
    __syncwarp();
    before();
    __syncthreads();
    if (warp == 1) {
        give_back<1, 256>(s);
    }
}
"""
KERNELS = {"one": ONE, "pair": PAIR, "scaled": SCALED, "attention": ATTENTION}
