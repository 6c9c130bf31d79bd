//// bfloat16_to_float
__device__ __forceinline__ float bfloat16_to_float(bfloat16_t x) { return __uint_as_float((unsigned)x << 16); }

//// cluster_ctaid_x
__device__ __forceinline__ int cluster_ctaid_x()
{
    int id;
    asm("mov.u32 %0, %%cluster_ctaid.x;" : "=r"(id));
    return id;
}

//// cp_async_16
// 16 bytes from global to shared memory; they land at a wait for the group of this thread's next commit.
__device__ __forceinline__ void cp_async_16(void *smem, const void *gmem)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
                 ::"r"((unsigned)__cvta_generic_to_shared(smem)), "l"(gmem) : "memory");
}

//// cp_async_16_or_zero
// 16 bytes from global to shared memory, zeros unless `inside`; they land at a wait.
__device__ __forceinline__ void cp_async_16_or_zero(void *smem, const void *gmem, bool inside)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 ::"r"((unsigned)__cvta_generic_to_shared(smem)), "l"(gmem), "r"(inside ? 16 : 0) : "memory");
}

//// cp_async_4
// 4 bytes from global to shared memory; they land at a wait for the group of this thread's next commit.
__device__ __forceinline__ void cp_async_4(void *smem, const void *gmem)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;"
                 ::"r"((unsigned)__cvta_generic_to_shared(smem)), "l"(gmem) : "memory");
}

//// cp_async_4_or_zero
// 4 bytes from global to shared memory, zeros unless `inside`; they land at a wait.
__device__ __forceinline__ void cp_async_4_or_zero(void *smem, const void *gmem, bool inside)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
                 ::"r"((unsigned)__cvta_generic_to_shared(smem)), "l"(gmem), "r"(inside ? 4 : 0) : "memory");
}

//// cp_async_8_or_zero
// 8 bytes from global to shared memory, zeros unless `inside`; they land at a wait.
__device__ __forceinline__ void cp_async_8_or_zero(void *smem, const void *gmem, bool inside)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;"
                 ::"r"((unsigned)__cvta_generic_to_shared(smem)), "l"(gmem), "r"(inside ? 8 : 0) : "memory");
}

//// cp_async_commit
// This thread's copies since its last commit become one group.
__device__ __forceinline__ void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

//// cp_async_wait
// Until at most `pending` of this thread's groups are in flight.
template <int pending> __device__ __forceinline__ void cp_async_wait()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}

//// exp2_approx
// 2 to the power of x, with a relative error of 2^-22; results below 2^-126 are 0.
__device__ __forceinline__ float exp2_approx(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

//// fence_async
// Stores of this thread to shared memory before it are seen by TMA after it.
__device__ __forceinline__ void fence_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

//// fence_mbarrier_init
// The mbarriers that this thread has made are seen by the CTAs of the cluster after they have met.
__device__ __forceinline__ void fence_mbarrier_init()
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

//// float_to_bfloat16
__device__ __forceinline__ bfloat16_t float_to_bfloat16(float x)
{
    bfloat16_t y;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y) : "f"(x));
    return y;
}

//// float_to_e4m3_saturated@sm_89
// Rounds to nearest even; beyond 448 it is 448, NaN stays NaN.
__device__ __forceinline__ float8_e4m3_t float_to_e4m3_saturated(float x)
{
    unsigned short y;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(y) : "f"(0.0f), "f"(x));
    return y & 0xff;
}

//// float_to_half
__device__ __forceinline__ half_t float_to_half(float x)
{
    half_t y;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x));
    return y;
}

//// floor_div
// The quotient rounded down.
template <typename T> __device__ __forceinline__ T floor_div(T a, T b)
{
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

//// half_to_float
__device__ __forceinline__ float half_to_float(half_t x)
{
    float y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x));
    return y;
}

//// int_to_uint32
__device__ __forceinline__ unsigned int_to_uint32(long long x)
{
    return (unsigned)(x < 0 ? 0 : x > 4294967295ll ? 4294967295ll : x);
}

//// is_elected
// One thread of a warp whose 32 threads are all here: always the same one. The compiler then knows that it is one.
__device__ __forceinline__ bool is_elected()
{
    unsigned elected;
    asm volatile("{\n\t.reg .pred p;\n\telect.sync _|p, 0xffffffff;\n\tselp.b32 %0, 1, 0, p;\n\t}" : "=r"(elected));
    return elected;
}

//// keep_registers
// The compiler leaves what is done with these registers on the side of this place where it stands.
__device__ __forceinline__ void keep_register(float &x) { asm volatile("" : "+f"(x) :: "memory"); }
__device__ __forceinline__ void keep_register(int &x) { asm volatile("" : "+r"(x) :: "memory"); }
__device__ __forceinline__ void keep_register(unsigned &x) { asm volatile("" : "+r"(x) :: "memory"); }
template <int count, typename T> __device__ __forceinline__ void keep_registers(T *x)
{
#pragma unroll
    for (int k = 0; k < count; ++k) {
        keep_register(x[k]);
    }
}

//// launch_dependents
// The kernel after this one may start, as far as it was launched to overlap; it waits for the end of this one.
__device__ __forceinline__ void launch_dependents() { asm volatile("griddepcontrol.launch_dependents;"); }

//// ldmatrix_x2_trans
// Lane 8 k + r gives the address of row r of matrix k; word k of lane l holds elements 2 (l % 4), + 1 of its column l /
// 4.
__device__ __forceinline__ void ldmatrix_x2_trans(unsigned *words, const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
        : "=r"(words[0]), "=r"(words[1]) : "r"((unsigned)__cvta_generic_to_shared(row)) : "memory");
}

//// ldmatrix_x4
// Lane 8 k + r gives the address of row r of matrix k; word k of lane l holds elements 2 (l % 4), + 1 of its row l / 4.
__device__ __forceinline__ void ldmatrix_x4(unsigned *words, const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
        : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3]) : "r"((unsigned)__cvta_generic_to_shared(row))
        : "memory");
}

//// ldmatrix_x4_trans
// Lane 8 k + r gives the address of row r of matrix k; word k of lane l holds elements 2 (l % 4), + 1 of its column l /
// 4.
__device__ __forceinline__ void ldmatrix_x4_trans(unsigned *words, const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
        : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3]) : "r"((unsigned)__cvta_generic_to_shared(row))
        : "memory");
}

//// load_stream_16
// 16 bytes that are read once: fetched by 256 bytes, first to leave the L2 (PTX ISA, ld: .level::prefetch_size,
// .level::cache_hint).
__device__ __forceinline__ uint4 load_stream_16(const uint4 *p)
{
    uint4 x;
    asm("{\n\t.reg .b64 once;\n\tcreatepolicy.fractional.L2::evict_first.b64 once, 1.0;\n\t"
        "ld.global.nc.L2::cache_hint.L2::256B.v4.u32 {%0, %1, %2, %3}, [%4], once;\n\t}"
        : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w) : "l"(p));
    return x;
}

//// load_stream_4
// 4 bytes that are read once: fetched by 256 bytes, first to leave the L2 (PTX ISA, ld: .level::prefetch_size,
// .level::cache_hint).
__device__ __forceinline__ unsigned load_stream_4(const unsigned *p)
{
    unsigned x;
    asm("{\n\t.reg .b64 once;\n\tcreatepolicy.fractional.L2::evict_first.b64 once, 1.0;\n\t"
        "ld.global.nc.L2::cache_hint.L2::256B.u32 %0, [%1], once;\n\t}"
        : "=r"(x) : "l"(p));
    return x;
}

//// matrix_descriptor
// Where wgmma finds a matrix in shared memory: its start (1 more is 16 bytes on), leading and stride byte offsets,
// swizzle (PTX ISA, wgmma: Matrix Descriptor Format).
template <int leading, int stride, int swizzle>
__device__ __forceinline__ unsigned long long matrix_descriptor(const void *smem)
{
    const unsigned long long mode = swizzle == 128 ? 1 : swizzle == 64 ? 2 : swizzle == 32 ? 3 : 0;
    const unsigned start = (unsigned)__cvta_generic_to_shared(smem) >> 4 & 0x3fff;
    return mode << 62 | (unsigned long long)(stride >> 4) << 32 | (unsigned long long)(leading >> 4) << 16 | start;
}

//// max_int
// The larger of two ints, found among unsigned ones: a compiler that joins min and max would lose the sign of -x.
__device__ __forceinline__ int max_int(int a, int b)
{
    int y;
    asm("{ .reg .b32 p, q; xor.b32 p, %1, 0x80000000; xor.b32 q, %2, 0x80000000; max.u32 p, p, q; "
        "xor.b32 %0, p, 0x80000000; }" : "=r"(y) : "r"(a), "r"(b));
    return y;
}

//// mbarrier_arrive
__device__ __forceinline__ void mbarrier_arrive(unsigned long long *bar)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];"
                 ::"r"((unsigned)__cvta_generic_to_shared(bar)) : "memory");
}

//// mbarrier_arrive_peer
// Arrives at the same mbarrier of the CTA of this rank in the cluster. It orders no access of threads over there: what
// was read before is read by tensor cores or TMA, and what is written after is written by TMA.
__device__ __forceinline__ void mbarrier_arrive_peer(unsigned long long *bar, int rank)
{
    asm volatile("{\n\t.reg .b32 there;\n\tmapa.shared::cluster.u32 there, %0, %1;\n\t"
                 "mbarrier.arrive.shared::cluster.b64 _, [there];\n\t}"
                 ::"r"((unsigned)__cvta_generic_to_shared(bar)), "r"(rank) : "memory");
}

//// mbarrier_arrive_peer_released
// Arrives at the same mbarrier of the CTA of this rank in the cluster; what was done before is ordered for who waits
// there.
__device__ __forceinline__ void mbarrier_arrive_peer_released(unsigned long long *bar, int rank)
{
    asm volatile("{\n\t.reg .b32 there;\n\tmapa.shared::cluster.u32 there, %0, %1;\n\t"
                 "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [there];\n\t}"
                 ::"r"((unsigned)__cvta_generic_to_shared(bar)), "r"(rank) : "memory");
}

//// mbarrier_expect
// Arrives, and announces bytes that TMA will bring.
__device__ __forceinline__ void mbarrier_expect(unsigned long long *bar, int bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 ::"r"((unsigned)__cvta_generic_to_shared(bar)), "r"(bytes) : "memory");
}

//// mbarrier_init
__device__ __forceinline__ void mbarrier_init(unsigned long long *bar, int arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;"
                 ::"r"((unsigned)__cvta_generic_to_shared(bar)), "r"(arrivals) : "memory");
}

//// mbarrier_wait
// Until the phase of this parity has completed.
__device__ __forceinline__ void mbarrier_wait(unsigned long long *bar, int parity)
{
    asm volatile("{\n\t.reg .pred done;\nwait:\n\tmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n\t"
                 "@!done bra wait;\n\t}"
                 ::"r"((unsigned)__cvta_generic_to_shared(bar)), "r"(parity) : "memory");
}

//// mbarrier_wait_cluster
// Until the phase of this parity has completed; what CTAs of the cluster did before they arrived is ordered before.
__device__ __forceinline__ void mbarrier_wait_cluster(unsigned long long *bar, int parity)
{
    asm volatile("{\n\t.reg .pred done;\nwait:\n\t"
                 "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n\t"
                 "@!done bra wait;\n\t}"
                 ::"r"((unsigned)__cvta_generic_to_shared(bar)), "r"(parity) : "memory");
}

//// min_int
// The smaller of two ints, found among unsigned ones: a compiler that joins min and max would lose the sign of -x.
__device__ __forceinline__ int min_int(int a, int b)
{
    int y;
    asm("{ .reg .b32 p, q; xor.b32 p, %1, 0x80000000; xor.b32 q, %2, 0x80000000; min.u32 p, p, q; "
        "xor.b32 %0, p, 0x80000000; }" : "=r"(y) : "r"(a), "r"(b));
    return y;
}

//// mma_m16n8k16_f32_bf16_bf16_f32
// The warp's C += A B; lane l holds its fragments of m16n8k16 as PTX lays them out.
__device__ __forceinline__ void mma_m16n8k16_f32_bf16_bf16_f32(float *c, const unsigned *a, const unsigned *b)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

//// mma_m16n8k16_f32_f16_f16_f32
// The warp's C += A B; lane l holds its fragments of m16n8k16 as PTX lays them out.
__device__ __forceinline__ void mma_m16n8k16_f32_f16_f16_f32(float *c, const unsigned *a, const unsigned *b)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

//// mma_m16n8k32_s32_s8_s8_s32
// The warp's C += A B; lane l holds its fragments of m16n8k32 as PTX lays them out.
__device__ __forceinline__ void mma_m16n8k32_s32_s8_s8_s32(int *c, const unsigned *a, const unsigned *b)
{
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

//// mma_m16n8k8_f64_f64_f64_f64
// The warp's C += A B; lane l holds its fragments of m16n8k8 as PTX lays them out.
__device__ __forceinline__ void mma_m16n8k8_f64_f64_f64_f64(double *c, const double *a, const double *b)
{
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
                 : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(b[0]), "d"(b[1]));
}

//// red_global_add_s32
// An element of global memory is updated by itself, as if no other thread of the GPU came between.
__device__ __forceinline__ void red_global_add_s32(void *p, const unsigned *x)
{
    asm volatile("red.relaxed.gpu.global.add.s32 [%0], %1;"
        :: "l"(__cvta_generic_to_global(p)), "r"(x[0]) : "memory");
}

//// red_global_add_u32
// An element of global memory is updated by itself, as if no other thread of the GPU came between.
__device__ __forceinline__ void red_global_add_u32(void *p, const unsigned *x)
{
    asm volatile("red.relaxed.gpu.global.add.u32 [%0], %1;"
        :: "l"(__cvta_generic_to_global(p)), "r"(x[0]) : "memory");
}

//// red_global_add_v4_bf16x2
// Each of 8 elements of global memory is updated by itself, as if no other thread of the GPU came between.
__device__ __forceinline__ void red_global_add_v4_bf16x2(void *p, const unsigned *x)
{
    asm volatile("red.relaxed.gpu.global.add.noftz.v4.bf16x2 [%0], {%1, %2, %3, %4};"
        :: "l"(__cvta_generic_to_global(p)), "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]) : "memory");
}

//// red_global_add_v4_f32
// Each of 4 elements of global memory is updated by itself, as if no other thread of the GPU came between.
__device__ __forceinline__ void red_global_add_v4_f32(void *p, const float *x)
{
    asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};"
        :: "l"(__cvta_generic_to_global(p)), "f"(x[0]), "f"(x[1]), "f"(x[2]), "f"(x[3]) : "memory");
}

//// red_shared_add_s32
// An element of shared memory is updated by itself, as if no other thread of the CTA came between.
__device__ __forceinline__ void red_shared_add_s32(void *p, const unsigned *x)
{
    asm volatile("red.relaxed.cta.shared.add.s32 [%0], %1;"
        :: "r"((unsigned)__cvta_generic_to_shared(p)), "r"(x[0]) : "memory");
}

//// red_shared_add_u32
// An element of shared memory is updated by itself, as if no other thread of the CTA came between.
__device__ __forceinline__ void red_shared_add_u32(void *p, const unsigned *x)
{
    asm volatile("red.relaxed.cta.shared.add.u32 [%0], %1;"
        :: "r"((unsigned)__cvta_generic_to_shared(p)), "r"(x[0]) : "memory");
}

//// registers_down
// A whole warpgroup goes on with n registers a thread, fewer than it had.
template <int n> __device__ __forceinline__ void registers_down()
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(n));
}

//// registers_up
// A whole warpgroup goes on with n registers a thread: it waits until others have given them.
template <int n> __device__ __forceinline__ void registers_up()
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(n));
}

//// stmatrix_x2
// Lane 8 k + r gives the address of row r of matrix k; word k of lane l holds elements 2 (l % 4), + 1 of its row l / 4.
__device__ __forceinline__ void stmatrix_x2(const unsigned *words, void *row)
{
    asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%2], {%0, %1};"
        :: "r"(words[0]), "r"(words[1]), "r"((unsigned)__cvta_generic_to_shared(row)) : "memory");
}

//// stmatrix_x4
// Lane 8 k + r gives the address of row r of matrix k; word k of lane l holds elements 2 (l % 4), + 1 of its row l / 4.
__device__ __forceinline__ void stmatrix_x4(const unsigned *words, void *row)
{
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%4], {%0, %1, %2, %3};"
        :: "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3]), "r"((unsigned)__cvta_generic_to_shared(row))
        : "memory");
}

//// store_stream_16
// 16 bytes that this kernel does not read again: first to leave the L2 (PTX ISA, st: .level::cache_hint).
__device__ __forceinline__ void store_stream_16(uint4 *p, uint4 x)
{
    asm volatile("{\n\t.reg .b64 once;\n\tcreatepolicy.fractional.L2::evict_first.b64 once, 1.0;\n\t"
                 "st.global.L2::cache_hint.v4.u32 [%0], {%1, %2, %3, %4}, once;\n\t}" ::"l"(p), "r"(x.x), "r"(x.y),
                 "r"(x.z), "r"(x.w) : "memory");
}

//// store_stream_4
// 4 bytes that this kernel does not read again: first to leave the L2 (PTX ISA, st: .level::cache_hint).
__device__ __forceinline__ void store_stream_4(unsigned *p, unsigned x)
{
    asm volatile("{\n\t.reg .b64 once;\n\tcreatepolicy.fractional.L2::evict_first.b64 once, 1.0;\n\t"
                 "st.global.L2::cache_hint.u32 [%0], %1, once;\n\t}" ::"l"(p), "r"(x) : "memory");
}

//// store_stream_8
// 8 bytes that this kernel does not read again: first to leave the L2 (PTX ISA, st: .level::cache_hint).
__device__ __forceinline__ void store_stream_8(uint2 *p, uint2 x)
{
    asm volatile("{\n\t.reg .b64 once;\n\tcreatepolicy.fractional.L2::evict_first.b64 once, 1.0;\n\t"
                 "st.global.L2::cache_hint.v2.u32 [%0], {%1, %2}, once;\n\t}" ::"l"(p), "r"(x.x), "r"(x.y) : "memory");
}

//// sync_cluster
// All threads of all CTAs of the cluster meet.
__device__ __forceinline__ void sync_cluster()
{
    asm volatile("barrier.cluster.arrive.aligned;\n\tbarrier.cluster.wait.aligned;" ::: "memory");
}

//// sync_role
// The threads of a role meet at a named barrier of their own.
__device__ __forceinline__ void sync_role(int barrier, int threads)
{
    asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

//// sync_warpgroup
// The 128 threads of a warpgroup meet. Barrier 0 is __syncthreads's.
__device__ __forceinline__ void sync_warpgroup(int wgid)
{
    asm volatile("bar.sync %0, 128;" ::"r"(wgid + 1) : "memory");
}

//// tcgen05_commit
// The mbarrier gets one arrival when all products and copies to tensor memory that this thread has started are done.
__device__ __forceinline__ void tcgen05_commit(unsigned long long *bar)
{
    asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];"
                 ::"r"((unsigned)__cvta_generic_to_shared(bar)) : "memory");
}

//// tcgen05_commit_to_pair
// The mbarrier of each CTA of the cluster whose bit of `peers` is set gets one arrival when all products and copies to
// tensor memory that this thread has started are done.
__device__ __forceinline__ void tcgen05_commit_to_pair(unsigned long long *bar, int peers)
{
    asm volatile("tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%0], %1;"
                 ::"r"((unsigned)__cvta_generic_to_shared(bar)), "h"((unsigned short)peers) : "memory");
}

//// tcgen05_cp_32x128b_warpx4
// One thread starts a copy of 32 rows of 16 bytes, where a descriptor says, to 4 columns of lanes 0 to 31, and again to
// each 32 lanes after them.
__device__ __forceinline__ void tcgen05_cp_32x128b_warpx4(unsigned at, unsigned long long rows)
{
    asm volatile("tcgen05.cp.cta_group::1.32x128b.warpx4 [%0], %1;" ::"r"(at), "l"(rows) : "memory");
}

//// tcgen05_descriptor
// Where tcgen05.mma finds a matrix in shared memory: its start (1 more is 16 bytes on), leading and stride byte
// offsets, version 1, swizzle of chunks of 16 or 32 bytes (PTX ISA, tcgen05: Shared memory descriptor).
template <int leading, int stride, int swizzle, int chunk = 16>
__device__ __forceinline__ unsigned long long tcgen05_descriptor(const void *smem)
{
    const unsigned long long mode = chunk == 32 ? 1 : swizzle == 128 ? 2 : swizzle == 64 ? 4 : swizzle ==
        32 ? 6 : 0;
    const unsigned start = (unsigned)__cvta_generic_to_shared(smem) >> 4 & 0x3fff;
    const unsigned long long offsets =
        (unsigned long long)(stride >> 4) << 32 | (unsigned long long)(leading >> 4) << 16;
    return mode << 61 | 1ull << 46 | offsets | start;
}

//// tcgen05_mma_f16
// One thread starts C += A B, C = A B unless it adds: A and B where their descriptors say, C in tensor memory; `form`
// is the instruction's descriptor.
__device__ __forceinline__ void tcgen05_mma_f16(unsigned c, unsigned long long a, unsigned long long b,
    unsigned form, bool adds)
{
    asm volatile("{\n\t.reg .pred adds;\n\tsetp.ne.b32 adds, %4, 0;\n\t"
                 "tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, adds;\n\t}"
                 ::"r"(c), "l"(a), "l"(b), "r"(form), "r"((int)adds) : "memory");
}

//// tcgen05_mma_f16_cells
// The same with A in tensor memory: row r in lane r, 8 columns from its address on.
__device__ __forceinline__ void tcgen05_mma_f16_cells(unsigned c, unsigned a, unsigned long long b,
    unsigned form, bool adds)
{
    asm volatile("{\n\t.reg .pred adds;\n\tsetp.ne.b32 adds, %4, 0;\n\t"
                 "tcgen05.mma.cta_group::1.kind::f16 [%0], [%1], %2, %3, adds;\n\t}"
                 ::"r"(c), "r"(a), "l"(b), "r"(form), "r"((int)adds) : "memory");
}

//// tcgen05_mma_f16_pair
// One thread starts C += A B, C = A B unless it adds: A and B where their descriptors say, C in tensor memory; `form`
// is the instruction's descriptor. Each CTA of the pair has half of the rows of A and of C, and half of the columns of
// B, at the same places.
__device__ __forceinline__ void tcgen05_mma_f16_pair(unsigned c, unsigned long long a, unsigned long long b,
    unsigned form, bool adds)
{
    asm volatile("{\n\t.reg .pred adds;\n\tsetp.ne.b32 adds, %4, 0;\n\t"
                 "tcgen05.mma.cta_group::2.kind::f16 [%0], %1, %2, %3, adds;\n\t}"
                 ::"r"(c), "l"(a), "l"(b), "r"(form), "r"((int)adds) : "memory");
}

//// tcgen05_mma_mxf8f6f4
// As the one without factors; element k of a row is multiplied by the factor of k / 32, a power of two, of which tensor
// memory has one for each row.
__device__ __forceinline__ void tcgen05_mma_mxf8f6f4(unsigned c, unsigned long long a, unsigned long long b,
    unsigned form, unsigned sfa, unsigned sfb, bool adds)
{
    asm volatile("{\n\t.reg .pred adds;\n\tsetp.ne.b32 adds, %6, 0;\n\t"
                 "tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale.block32 [%0], %1, %2, %3, [%4], [%5], adds;\n\t}"
                 ::"r"(c), "l"(a), "l"(b), "r"(form), "r"(sfa), "r"(sfb), "r"((int)adds) : "memory");
}

//// tma_commit
// The stores that this thread has started since its last commit become one group.
__device__ __forceinline__ void tma_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

//// tma_load_2d
// A box from global to shared memory, started by one thread; its bytes are reported to the mbarrier.
__device__ __forceinline__ void tma_load_2d(void *smem, const TensorMap *map, int x, int y,
    unsigned long long *bar)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4}], [%2];"
                 ::"r"((unsigned)__cvta_generic_to_shared(smem)), "l"(map),
                 "r"((unsigned)__cvta_generic_to_shared(bar)), "r"(x), "r"(y) : "memory");
}

//// tma_load_2d_pair
// A box from global to shared memory, started by one thread; its bytes are reported to the mbarrier of the CTA of this
// rank, of the same pair.
__device__ __forceinline__ void tma_load_2d_pair(void *smem, const TensorMap *map, int x, int y,
    unsigned long long *bar, int rank)
{
    asm volatile("{\n\t.reg .b32 there;\n\tmapa.shared::cluster.u32 there, %2, %3;\n\t"
                 "cp.async.bulk.tensor.2d.cta_group::2.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%4, %5}], [there];\n\t}"
                 ::"r"((unsigned)__cvta_generic_to_shared(smem)), "l"(map),
                 "r"((unsigned)__cvta_generic_to_shared(bar)), "r"(rank), "r"(x), "r"(y) : "memory");
}

//// tma_load_3d
// A box from global to shared memory, started by one thread; its bytes are reported to the mbarrier.
__device__ __forceinline__ void tma_load_3d(void *smem, const TensorMap *map, int x, int y, int z,
    unsigned long long *bar)
{
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4, %5}], [%2];"
                 ::"r"((unsigned)__cvta_generic_to_shared(smem)), "l"(map),
                 "r"((unsigned)__cvta_generic_to_shared(bar)), "r"(x), "r"(y), "r"(z) : "memory");
}

//// tma_load_4d
// A box from global to shared memory, started by one thread; its bytes are reported to the mbarrier.
__device__ __forceinline__ void tma_load_4d(void *smem, const TensorMap *map, int x, int y, int z, int u,
    unsigned long long *bar)
{
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4, %5, %6}], [%2];"
                 ::"r"((unsigned)__cvta_generic_to_shared(smem)), "l"(map),
                 "r"((unsigned)__cvta_generic_to_shared(bar)), "r"(x), "r"(y), "r"(z), "r"(u) : "memory");
}

//// tma_multicast_2d
// A box from global memory to one place in the shared memory of each CTA of the cluster whose bit of `peers` is set,
// started by one thread; its bytes are reported to the mbarrier of each.
__device__ __forceinline__ void tma_multicast_2d(void *smem, const TensorMap *map, int x, int y,
    unsigned long long *bar, int peers)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
                 "[%0], [%1, {%4, %5}], [%2], %3;"
                 ::"r"((unsigned)__cvta_generic_to_shared(smem)), "l"(map),
                 "r"((unsigned)__cvta_generic_to_shared(bar)), "h"((unsigned short)peers), "r"(x), "r"(y) : "memory");
}

//// tma_store_2d
// A box from shared to global memory, started by one thread, whose next commit it belongs to.
__device__ __forceinline__ void tma_store_2d(const void *smem, const TensorMap *map, int x, int y)
{
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group "
                 "[%1, {%2, %3}], [%0];"
                 ::"r"((unsigned)__cvta_generic_to_shared(smem)), "l"(map), "r"(x), "r"(y) : "memory");
}

//// tma_store_3d
// A box from shared to global memory, started by one thread, whose next commit it belongs to.
__device__ __forceinline__ void tma_store_3d(const void *smem, const TensorMap *map, int x, int y, int z)
{
    asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group "
                 "[%1, {%2, %3, %4}], [%0];"
                 ::"r"((unsigned)__cvta_generic_to_shared(smem)), "l"(map), "r"(x), "r"(y), "r"(z) : "memory");
}

//// tma_store_4d
// A box from shared to global memory, started by one thread, whose next commit it belongs to.
__device__ __forceinline__ void tma_store_4d(const void *smem, const TensorMap *map, int x, int y, int z,
    int u)
{
    asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group "
                 "[%1, {%2, %3, %4, %5}], [%0];"
                 ::"r"((unsigned)__cvta_generic_to_shared(smem)), "l"(map), "r"(x), "r"(y), "r"(z), "r"(u) : "memory");
}

//// tma_wait
// Until at most `pending` of this thread's groups still read shared memory.
template <int pending> __device__ __forceinline__ void tma_wait()
{
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(pending) : "memory");
}

//// tmem_alloc
// A warp takes columns of tensor memory, all 128 lanes of each, when there are so many; the address of the first goes
// to shared memory.
template <int columns> __device__ __forceinline__ void tmem_alloc(unsigned *base)
{
    asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;"
                 ::"r"((unsigned)__cvta_generic_to_shared(base)), "n"(columns) : "memory");
}

//// tmem_alloc_done
// This CTA takes no more columns, so that another on the SM may.
__device__ __forceinline__ void tmem_alloc_done()
{
    asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;" ::: "memory");
}

//// tmem_alloc_done_pair
// This CTA takes no more columns, so that another on the SM may.
__device__ __forceinline__ void tmem_alloc_done_pair()
{
    asm volatile("tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;" ::: "memory");
}

//// tmem_alloc_pair
// A warp of each CTA of a pair takes columns of tensor memory, all 128 lanes of each, when there are so many in both;
// the address of the first goes to shared memory.
template <int columns> __device__ __forceinline__ void tmem_alloc_pair(unsigned *base)
{
    asm volatile("tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%0], %1;"
                 ::"r"((unsigned)__cvta_generic_to_shared(base)), "n"(columns) : "memory");
}

//// tmem_fence_after
// What this thread does with tensor memory after comes after what it has been told of before.
__device__ __forceinline__ void tmem_fence_after() { asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory"); }

//// tmem_fence_before
// What this thread did with tensor memory before comes before what is done by threads that it tells after.
__device__ __forceinline__ void tmem_fence_before() { asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory"); }

//// tmem_free
// The warp that took columns gives them back.
template <int columns> __device__ __forceinline__ void tmem_free(unsigned base)
{
    asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;" ::"r"(base), "n"(columns) : "memory");
}

//// tmem_free_pair
// The warp that took columns gives them back; that of the other CTA of the pair does so too.
template <int columns> __device__ __forceinline__ void tmem_free_pair(unsigned base)
{
    asm volatile("tcgen05.dealloc.cta_group::2.sync.aligned.b32 %0, %1;" ::"r"(base), "n"(columns) : "memory");
}

//// tmem_load_128
// Lane l of a warp gets 128 columns of lane l of the warp's 32 lanes; they are there after a wait.
__device__ __forceinline__ void tmem_load_128(unsigned *x, unsigned at)
{
    asm volatile("tcgen05.ld.sync.aligned.32x32b.x128.b32 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7, "
                 "%8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, "
                 "%24, %25, %26, %27, %28, %29, %30, %31, "
                 "%32, %33, %34, %35, %36, %37, %38, %39, "
                 "%40, %41, %42, %43, %44, %45, %46, %47, "
                 "%48, %49, %50, %51, %52, %53, %54, %55, "
                 "%56, %57, %58, %59, %60, %61, %62, %63, "
                 "%64, %65, %66, %67, %68, %69, %70, %71, "
                 "%72, %73, %74, %75, %76, %77, %78, %79, "
                 "%80, %81, %82, %83, %84, %85, %86, %87, "
                 "%88, %89, %90, %91, %92, %93, %94, %95, "
                 "%96, %97, %98, %99, %100, %101, %102, %103, "
                 "%104, %105, %106, %107, %108, %109, %110, %111, "
                 "%112, %113, %114, %115, %116, %117, %118, %119, "
                 "%120, %121, %122, %123, %124, %125, %126, %127}, [%128];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]), "=r"(x[4]), "=r"(x[5]), "=r"(x[6]),
                   "=r"(x[7]), "=r"(x[8]), "=r"(x[9]), "=r"(x[10]), "=r"(x[11]), "=r"(x[12]), "=r"(x[13]),
                   "=r"(x[14]), "=r"(x[15]), "=r"(x[16]), "=r"(x[17]), "=r"(x[18]), "=r"(x[19]), "=r"(x[20]),
                   "=r"(x[21]), "=r"(x[22]), "=r"(x[23]), "=r"(x[24]), "=r"(x[25]), "=r"(x[26]), "=r"(x[27]),
                   "=r"(x[28]), "=r"(x[29]), "=r"(x[30]), "=r"(x[31]), "=r"(x[32]), "=r"(x[33]), "=r"(x[34]),
                   "=r"(x[35]), "=r"(x[36]), "=r"(x[37]), "=r"(x[38]), "=r"(x[39]), "=r"(x[40]), "=r"(x[41]),
                   "=r"(x[42]), "=r"(x[43]), "=r"(x[44]), "=r"(x[45]), "=r"(x[46]), "=r"(x[47]), "=r"(x[48]),
                   "=r"(x[49]), "=r"(x[50]), "=r"(x[51]), "=r"(x[52]), "=r"(x[53]), "=r"(x[54]), "=r"(x[55]),
                   "=r"(x[56]), "=r"(x[57]), "=r"(x[58]), "=r"(x[59]), "=r"(x[60]), "=r"(x[61]), "=r"(x[62]),
                   "=r"(x[63]), "=r"(x[64]), "=r"(x[65]), "=r"(x[66]), "=r"(x[67]), "=r"(x[68]), "=r"(x[69]),
                   "=r"(x[70]), "=r"(x[71]), "=r"(x[72]), "=r"(x[73]), "=r"(x[74]), "=r"(x[75]), "=r"(x[76]),
                   "=r"(x[77]), "=r"(x[78]), "=r"(x[79]), "=r"(x[80]), "=r"(x[81]), "=r"(x[82]), "=r"(x[83]),
                   "=r"(x[84]), "=r"(x[85]), "=r"(x[86]), "=r"(x[87]), "=r"(x[88]), "=r"(x[89]), "=r"(x[90]),
                   "=r"(x[91]), "=r"(x[92]), "=r"(x[93]), "=r"(x[94]), "=r"(x[95]), "=r"(x[96]), "=r"(x[97]),
                   "=r"(x[98]), "=r"(x[99]), "=r"(x[100]), "=r"(x[101]), "=r"(x[102]), "=r"(x[103]), "=r"(x[104]),
                   "=r"(x[105]), "=r"(x[106]), "=r"(x[107]), "=r"(x[108]), "=r"(x[109]), "=r"(x[110]), "=r"(x[111]),
                   "=r"(x[112]), "=r"(x[113]), "=r"(x[114]), "=r"(x[115]), "=r"(x[116]), "=r"(x[117]), "=r"(x[118]),
                   "=r"(x[119]), "=r"(x[120]), "=r"(x[121]), "=r"(x[122]), "=r"(x[123]), "=r"(x[124]), "=r"(x[125]),
                   "=r"(x[126]), "=r"(x[127])
                 : "r"(at) : "memory");
}

//// tmem_load_32
// Lane l of a warp gets 32 columns of lane l of the warp's 32 lanes; they are there after a wait.
__device__ __forceinline__ void tmem_load_32(unsigned *x, unsigned at)
{
    asm volatile("tcgen05.ld.sync.aligned.32x32b.x32.b32 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7, "
                 "%8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, "
                 "%24, %25, %26, %27, %28, %29, %30, %31}, [%32];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]), "=r"(x[4]), "=r"(x[5]), "=r"(x[6]),
                   "=r"(x[7]), "=r"(x[8]), "=r"(x[9]), "=r"(x[10]), "=r"(x[11]), "=r"(x[12]), "=r"(x[13]),
                   "=r"(x[14]), "=r"(x[15]), "=r"(x[16]), "=r"(x[17]), "=r"(x[18]), "=r"(x[19]), "=r"(x[20]),
                   "=r"(x[21]), "=r"(x[22]), "=r"(x[23]), "=r"(x[24]), "=r"(x[25]), "=r"(x[26]), "=r"(x[27]),
                   "=r"(x[28]), "=r"(x[29]), "=r"(x[30]), "=r"(x[31])
                 : "r"(at) : "memory");
}

//// tmem_load_64
// Lane l of a warp gets 64 columns of lane l of the warp's 32 lanes; they are there after a wait.
__device__ __forceinline__ void tmem_load_64(unsigned *x, unsigned at)
{
    asm volatile("tcgen05.ld.sync.aligned.32x32b.x64.b32 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7, "
                 "%8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, "
                 "%24, %25, %26, %27, %28, %29, %30, %31, "
                 "%32, %33, %34, %35, %36, %37, %38, %39, "
                 "%40, %41, %42, %43, %44, %45, %46, %47, "
                 "%48, %49, %50, %51, %52, %53, %54, %55, "
                 "%56, %57, %58, %59, %60, %61, %62, %63}, [%64];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]), "=r"(x[4]), "=r"(x[5]), "=r"(x[6]),
                   "=r"(x[7]), "=r"(x[8]), "=r"(x[9]), "=r"(x[10]), "=r"(x[11]), "=r"(x[12]), "=r"(x[13]),
                   "=r"(x[14]), "=r"(x[15]), "=r"(x[16]), "=r"(x[17]), "=r"(x[18]), "=r"(x[19]), "=r"(x[20]),
                   "=r"(x[21]), "=r"(x[22]), "=r"(x[23]), "=r"(x[24]), "=r"(x[25]), "=r"(x[26]), "=r"(x[27]),
                   "=r"(x[28]), "=r"(x[29]), "=r"(x[30]), "=r"(x[31]), "=r"(x[32]), "=r"(x[33]), "=r"(x[34]),
                   "=r"(x[35]), "=r"(x[36]), "=r"(x[37]), "=r"(x[38]), "=r"(x[39]), "=r"(x[40]), "=r"(x[41]),
                   "=r"(x[42]), "=r"(x[43]), "=r"(x[44]), "=r"(x[45]), "=r"(x[46]), "=r"(x[47]), "=r"(x[48]),
                   "=r"(x[49]), "=r"(x[50]), "=r"(x[51]), "=r"(x[52]), "=r"(x[53]), "=r"(x[54]), "=r"(x[55]),
                   "=r"(x[56]), "=r"(x[57]), "=r"(x[58]), "=r"(x[59]), "=r"(x[60]), "=r"(x[61]), "=r"(x[62]),
                   "=r"(x[63])
                 : "r"(at) : "memory");
}

//// tmem_store_32
// Lane l of a warp writes 32 columns of lane l of the warp's 32 lanes; they are there after a wait.
__device__ __forceinline__ void tmem_store_32(const unsigned *x, unsigned at)
{
    asm volatile("tcgen05.st.sync.aligned.32x32b.x32.b32 [%32], "
                 "{%0, %1, %2, %3, %4, %5, %6, %7, "
                 "%8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, "
                 "%24, %25, %26, %27, %28, %29, %30, %31};"
                 :: "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(x[4]), "r"(x[5]), "r"(x[6]),
                   "r"(x[7]), "r"(x[8]), "r"(x[9]), "r"(x[10]), "r"(x[11]), "r"(x[12]), "r"(x[13]),
                   "r"(x[14]), "r"(x[15]), "r"(x[16]), "r"(x[17]), "r"(x[18]), "r"(x[19]), "r"(x[20]),
                   "r"(x[21]), "r"(x[22]), "r"(x[23]), "r"(x[24]), "r"(x[25]), "r"(x[26]), "r"(x[27]),
                   "r"(x[28]), "r"(x[29]), "r"(x[30]), "r"(x[31]),
                   "r"(at) : "memory");
}

//// tmem_store_64
// Lane l of a warp writes 64 columns of lane l of the warp's 32 lanes; they are there after a wait.
__device__ __forceinline__ void tmem_store_64(const unsigned *x, unsigned at)
{
    asm volatile("tcgen05.st.sync.aligned.32x32b.x64.b32 [%64], "
                 "{%0, %1, %2, %3, %4, %5, %6, %7, "
                 "%8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, "
                 "%24, %25, %26, %27, %28, %29, %30, %31, "
                 "%32, %33, %34, %35, %36, %37, %38, %39, "
                 "%40, %41, %42, %43, %44, %45, %46, %47, "
                 "%48, %49, %50, %51, %52, %53, %54, %55, "
                 "%56, %57, %58, %59, %60, %61, %62, %63};"
                 :: "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(x[4]), "r"(x[5]), "r"(x[6]),
                   "r"(x[7]), "r"(x[8]), "r"(x[9]), "r"(x[10]), "r"(x[11]), "r"(x[12]), "r"(x[13]),
                   "r"(x[14]), "r"(x[15]), "r"(x[16]), "r"(x[17]), "r"(x[18]), "r"(x[19]), "r"(x[20]),
                   "r"(x[21]), "r"(x[22]), "r"(x[23]), "r"(x[24]), "r"(x[25]), "r"(x[26]), "r"(x[27]),
                   "r"(x[28]), "r"(x[29]), "r"(x[30]), "r"(x[31]), "r"(x[32]), "r"(x[33]), "r"(x[34]),
                   "r"(x[35]), "r"(x[36]), "r"(x[37]), "r"(x[38]), "r"(x[39]), "r"(x[40]), "r"(x[41]),
                   "r"(x[42]), "r"(x[43]), "r"(x[44]), "r"(x[45]), "r"(x[46]), "r"(x[47]), "r"(x[48]),
                   "r"(x[49]), "r"(x[50]), "r"(x[51]), "r"(x[52]), "r"(x[53]), "r"(x[54]), "r"(x[55]),
                   "r"(x[56]), "r"(x[57]), "r"(x[58]), "r"(x[59]), "r"(x[60]), "r"(x[61]), "r"(x[62]),
                   "r"(x[63]),
                   "r"(at) : "memory");
}

//// tmem_wait_load
// Until the loads of this warp from tensor memory have come.
__device__ __forceinline__ void tmem_wait_load() { asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory"); }

//// tmem_wait_store
// Until the stores of this warp to tensor memory are there.
__device__ __forceinline__ void tmem_wait_store() { asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory"); }

//// wait_previous
// Until the kernels launched before have ended; what they wrote is there.
__device__ __forceinline__ void wait_previous() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

//// wgmma_commit
// The wgmmas that this warpgroup has started since its last commit become one group.
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

//// wgmma_fence
// What the warpgroup's threads did with their registers is done before its wgmmas after this.
__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

//// wgmma_m64n128k16_f32_bf16_bf16
// The warpgroup starts C += A B of m64n128k16, C = A B unless it adds; A along K, B along K.
__device__ __forceinline__ void wgmma_m64n128k16_f32_bf16_bf16(float *c, unsigned long long a,
    unsigned long long b, bool adds)
{
    asm volatile("{\n\t.reg .pred adds;\n\tsetp.ne.b32 adds, %66, 0;\n\t"
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
                 "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
                 "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
                 "%64, %65, adds, 1, 1, 0, 0;\n\t}"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7]),
                   "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]), "+f"(c[14]), "+f"(c[15]),
                   "+f"(c[16]), "+f"(c[17]), "+f"(c[18]), "+f"(c[19]), "+f"(c[20]), "+f"(c[21]), "+f"(c[22]),
                   "+f"(c[23]),
                   "+f"(c[24]), "+f"(c[25]), "+f"(c[26]), "+f"(c[27]), "+f"(c[28]), "+f"(c[29]), "+f"(c[30]),
                   "+f"(c[31]),
                   "+f"(c[32]), "+f"(c[33]), "+f"(c[34]), "+f"(c[35]), "+f"(c[36]), "+f"(c[37]), "+f"(c[38]),
                   "+f"(c[39]),
                   "+f"(c[40]), "+f"(c[41]), "+f"(c[42]), "+f"(c[43]), "+f"(c[44]), "+f"(c[45]), "+f"(c[46]),
                   "+f"(c[47]),
                   "+f"(c[48]), "+f"(c[49]), "+f"(c[50]), "+f"(c[51]), "+f"(c[52]), "+f"(c[53]), "+f"(c[54]),
                   "+f"(c[55]),
                   "+f"(c[56]), "+f"(c[57]), "+f"(c[58]), "+f"(c[59]), "+f"(c[60]), "+f"(c[61]), "+f"(c[62]),
                   "+f"(c[63])
                 : "l"(a), "l"(b), "r"((int)adds));
}

//// wgmma_m64n128k16_f32_bf16_bf16_ar_bn
// The warpgroup starts C += A B of m64n128k16, C = A B unless it adds; A in registers, B along N.
__device__ __forceinline__ void wgmma_m64n128k16_f32_bf16_bf16_ar_bn(float *c, const unsigned *a,
    unsigned long long b, bool adds)
{
    asm volatile("{\n\t.reg .pred adds;\n\tsetp.ne.b32 adds, %69, 0;\n\t"
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
                 "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
                 "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
                 "{%64, %65, %66, %67}, %68, adds, 1, 1, 1;\n\t}"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7]),
                   "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]), "+f"(c[14]), "+f"(c[15]),
                   "+f"(c[16]), "+f"(c[17]), "+f"(c[18]), "+f"(c[19]), "+f"(c[20]), "+f"(c[21]), "+f"(c[22]),
                   "+f"(c[23]),
                   "+f"(c[24]), "+f"(c[25]), "+f"(c[26]), "+f"(c[27]), "+f"(c[28]), "+f"(c[29]), "+f"(c[30]),
                   "+f"(c[31]),
                   "+f"(c[32]), "+f"(c[33]), "+f"(c[34]), "+f"(c[35]), "+f"(c[36]), "+f"(c[37]), "+f"(c[38]),
                   "+f"(c[39]),
                   "+f"(c[40]), "+f"(c[41]), "+f"(c[42]), "+f"(c[43]), "+f"(c[44]), "+f"(c[45]), "+f"(c[46]),
                   "+f"(c[47]),
                   "+f"(c[48]), "+f"(c[49]), "+f"(c[50]), "+f"(c[51]), "+f"(c[52]), "+f"(c[53]), "+f"(c[54]),
                   "+f"(c[55]),
                   "+f"(c[56]), "+f"(c[57]), "+f"(c[58]), "+f"(c[59]), "+f"(c[60]), "+f"(c[61]), "+f"(c[62]),
                   "+f"(c[63])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"((int)adds));
}

//// wgmma_m64n128k16_f32_bf16_bf16_bn
// The warpgroup starts C += A B of m64n128k16, C = A B unless it adds; A along K, B along N.
__device__ __forceinline__ void wgmma_m64n128k16_f32_bf16_bf16_bn(float *c, unsigned long long a,
    unsigned long long b, bool adds)
{
    asm volatile("{\n\t.reg .pred adds;\n\tsetp.ne.b32 adds, %66, 0;\n\t"
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
                 "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
                 "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
                 "%64, %65, adds, 1, 1, 0, 1;\n\t}"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7]),
                   "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]), "+f"(c[14]), "+f"(c[15]),
                   "+f"(c[16]), "+f"(c[17]), "+f"(c[18]), "+f"(c[19]), "+f"(c[20]), "+f"(c[21]), "+f"(c[22]),
                   "+f"(c[23]),
                   "+f"(c[24]), "+f"(c[25]), "+f"(c[26]), "+f"(c[27]), "+f"(c[28]), "+f"(c[29]), "+f"(c[30]),
                   "+f"(c[31]),
                   "+f"(c[32]), "+f"(c[33]), "+f"(c[34]), "+f"(c[35]), "+f"(c[36]), "+f"(c[37]), "+f"(c[38]),
                   "+f"(c[39]),
                   "+f"(c[40]), "+f"(c[41]), "+f"(c[42]), "+f"(c[43]), "+f"(c[44]), "+f"(c[45]), "+f"(c[46]),
                   "+f"(c[47]),
                   "+f"(c[48]), "+f"(c[49]), "+f"(c[50]), "+f"(c[51]), "+f"(c[52]), "+f"(c[53]), "+f"(c[54]),
                   "+f"(c[55]),
                   "+f"(c[56]), "+f"(c[57]), "+f"(c[58]), "+f"(c[59]), "+f"(c[60]), "+f"(c[61]), "+f"(c[62]),
                   "+f"(c[63])
                 : "l"(a), "l"(b), "r"((int)adds));
}

//// wgmma_m64n128k16_f32_f16_f16_bn
// The warpgroup starts C += A B of m64n128k16, C = A B unless it adds; A along K, B along N.
__device__ __forceinline__ void wgmma_m64n128k16_f32_f16_f16_bn(float *c, unsigned long long a,
    unsigned long long b, bool adds)
{
    asm volatile("{\n\t.reg .pred adds;\n\tsetp.ne.b32 adds, %66, 0;\n\t"
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
                 "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
                 "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
                 "%64, %65, adds, 1, 1, 0, 1;\n\t}"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7]),
                   "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]), "+f"(c[14]), "+f"(c[15]),
                   "+f"(c[16]), "+f"(c[17]), "+f"(c[18]), "+f"(c[19]), "+f"(c[20]), "+f"(c[21]), "+f"(c[22]),
                   "+f"(c[23]),
                   "+f"(c[24]), "+f"(c[25]), "+f"(c[26]), "+f"(c[27]), "+f"(c[28]), "+f"(c[29]), "+f"(c[30]),
                   "+f"(c[31]),
                   "+f"(c[32]), "+f"(c[33]), "+f"(c[34]), "+f"(c[35]), "+f"(c[36]), "+f"(c[37]), "+f"(c[38]),
                   "+f"(c[39]),
                   "+f"(c[40]), "+f"(c[41]), "+f"(c[42]), "+f"(c[43]), "+f"(c[44]), "+f"(c[45]), "+f"(c[46]),
                   "+f"(c[47]),
                   "+f"(c[48]), "+f"(c[49]), "+f"(c[50]), "+f"(c[51]), "+f"(c[52]), "+f"(c[53]), "+f"(c[54]),
                   "+f"(c[55]),
                   "+f"(c[56]), "+f"(c[57]), "+f"(c[58]), "+f"(c[59]), "+f"(c[60]), "+f"(c[61]), "+f"(c[62]),
                   "+f"(c[63])
                 : "l"(a), "l"(b), "r"((int)adds));
}

//// wgmma_m64n16k16_f32_bf16_bf16_am
// The warpgroup starts C += A B of m64n16k16, C = A B unless it adds; A along M, B along K.
__device__ __forceinline__ void wgmma_m64n16k16_f32_bf16_bf16_am(float *c, unsigned long long a,
    unsigned long long b, bool adds)
{
    asm volatile("{\n\t.reg .pred adds;\n\tsetp.ne.b32 adds, %10, 0;\n\t"
                 "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7}, "
                 "%8, %9, adds, 1, 1, 1, 0;\n\t}"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7])
                 : "l"(a), "l"(b), "r"((int)adds));
}

//// wgmma_m64n16k32_s32_s8_s8
// The warpgroup starts C += A B of m64n16k32, C = A B unless it adds; A along K, B along K.
__device__ __forceinline__ void wgmma_m64n16k32_s32_s8_s8(int *c, unsigned long long a, unsigned long long b,
    bool adds)
{
    asm volatile("{\n\t.reg .pred adds;\n\tsetp.ne.b32 adds, %10, 0;\n\t"
                 "wgmma.mma_async.sync.aligned.m64n16k32.s32.s8.s8 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7}, "
                 "%8, %9, adds;\n\t}"
                 : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3]), "+r"(c[4]), "+r"(c[5]), "+r"(c[6]), "+r"(c[7])
                 : "l"(a), "l"(b), "r"((int)adds));
}

//// wgmma_m64n256k16_f32_bf16_bf16
// The warpgroup starts C += A B of m64n256k16, C = A B unless it adds; A along K, B along K.
__device__ __forceinline__ void wgmma_m64n256k16_f32_bf16_bf16(float *c, unsigned long long a,
    unsigned long long b, bool adds)
{
    asm volatile("{\n\t.reg .pred adds;\n\tsetp.ne.b32 adds, %130, 0;\n\t"
                 "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
                 "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
                 "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
                 "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
                 "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
                 "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "
                 "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127}, "
                 "%128, %129, adds, 1, 1, 0, 0;\n\t}"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7]),
                   "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]), "+f"(c[14]), "+f"(c[15]),
                   "+f"(c[16]), "+f"(c[17]), "+f"(c[18]), "+f"(c[19]), "+f"(c[20]), "+f"(c[21]), "+f"(c[22]),
                   "+f"(c[23]),
                   "+f"(c[24]), "+f"(c[25]), "+f"(c[26]), "+f"(c[27]), "+f"(c[28]), "+f"(c[29]), "+f"(c[30]),
                   "+f"(c[31]),
                   "+f"(c[32]), "+f"(c[33]), "+f"(c[34]), "+f"(c[35]), "+f"(c[36]), "+f"(c[37]), "+f"(c[38]),
                   "+f"(c[39]),
                   "+f"(c[40]), "+f"(c[41]), "+f"(c[42]), "+f"(c[43]), "+f"(c[44]), "+f"(c[45]), "+f"(c[46]),
                   "+f"(c[47]),
                   "+f"(c[48]), "+f"(c[49]), "+f"(c[50]), "+f"(c[51]), "+f"(c[52]), "+f"(c[53]), "+f"(c[54]),
                   "+f"(c[55]),
                   "+f"(c[56]), "+f"(c[57]), "+f"(c[58]), "+f"(c[59]), "+f"(c[60]), "+f"(c[61]), "+f"(c[62]),
                   "+f"(c[63]),
                   "+f"(c[64]), "+f"(c[65]), "+f"(c[66]), "+f"(c[67]), "+f"(c[68]), "+f"(c[69]), "+f"(c[70]),
                   "+f"(c[71]),
                   "+f"(c[72]), "+f"(c[73]), "+f"(c[74]), "+f"(c[75]), "+f"(c[76]), "+f"(c[77]), "+f"(c[78]),
                   "+f"(c[79]),
                   "+f"(c[80]), "+f"(c[81]), "+f"(c[82]), "+f"(c[83]), "+f"(c[84]), "+f"(c[85]), "+f"(c[86]),
                   "+f"(c[87]),
                   "+f"(c[88]), "+f"(c[89]), "+f"(c[90]), "+f"(c[91]), "+f"(c[92]), "+f"(c[93]), "+f"(c[94]),
                   "+f"(c[95]),
                   "+f"(c[96]), "+f"(c[97]), "+f"(c[98]), "+f"(c[99]), "+f"(c[100]), "+f"(c[101]), "+f"(c[102]),
                   "+f"(c[103]),
                   "+f"(c[104]), "+f"(c[105]), "+f"(c[106]), "+f"(c[107]), "+f"(c[108]), "+f"(c[109]), "+f"(c[110]),
                   "+f"(c[111]),
                   "+f"(c[112]), "+f"(c[113]), "+f"(c[114]), "+f"(c[115]), "+f"(c[116]), "+f"(c[117]), "+f"(c[118]),
                   "+f"(c[119]),
                   "+f"(c[120]), "+f"(c[121]), "+f"(c[122]), "+f"(c[123]), "+f"(c[124]), "+f"(c[125]), "+f"(c[126]),
                   "+f"(c[127])
                 : "l"(a), "l"(b), "r"((int)adds));
}

//// wgmma_m64n256k32_f32_e4m3_e4m3
// The warpgroup starts C += A B of m64n256k32, C = A B unless it adds; A along K, B along K.
__device__ __forceinline__ void wgmma_m64n256k32_f32_e4m3_e4m3(float *c, unsigned long long a,
    unsigned long long b, bool adds)
{
    asm volatile("{\n\t.reg .pred adds;\n\tsetp.ne.b32 adds, %130, 0;\n\t"
                 "wgmma.mma_async.sync.aligned.m64n256k32.f32.e4m3.e4m3 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
                 "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
                 "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
                 "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
                 "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
                 "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "
                 "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127}, "
                 "%128, %129, adds, 1, 1;\n\t}"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7]),
                   "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]), "+f"(c[14]), "+f"(c[15]),
                   "+f"(c[16]), "+f"(c[17]), "+f"(c[18]), "+f"(c[19]), "+f"(c[20]), "+f"(c[21]), "+f"(c[22]),
                   "+f"(c[23]),
                   "+f"(c[24]), "+f"(c[25]), "+f"(c[26]), "+f"(c[27]), "+f"(c[28]), "+f"(c[29]), "+f"(c[30]),
                   "+f"(c[31]),
                   "+f"(c[32]), "+f"(c[33]), "+f"(c[34]), "+f"(c[35]), "+f"(c[36]), "+f"(c[37]), "+f"(c[38]),
                   "+f"(c[39]),
                   "+f"(c[40]), "+f"(c[41]), "+f"(c[42]), "+f"(c[43]), "+f"(c[44]), "+f"(c[45]), "+f"(c[46]),
                   "+f"(c[47]),
                   "+f"(c[48]), "+f"(c[49]), "+f"(c[50]), "+f"(c[51]), "+f"(c[52]), "+f"(c[53]), "+f"(c[54]),
                   "+f"(c[55]),
                   "+f"(c[56]), "+f"(c[57]), "+f"(c[58]), "+f"(c[59]), "+f"(c[60]), "+f"(c[61]), "+f"(c[62]),
                   "+f"(c[63]),
                   "+f"(c[64]), "+f"(c[65]), "+f"(c[66]), "+f"(c[67]), "+f"(c[68]), "+f"(c[69]), "+f"(c[70]),
                   "+f"(c[71]),
                   "+f"(c[72]), "+f"(c[73]), "+f"(c[74]), "+f"(c[75]), "+f"(c[76]), "+f"(c[77]), "+f"(c[78]),
                   "+f"(c[79]),
                   "+f"(c[80]), "+f"(c[81]), "+f"(c[82]), "+f"(c[83]), "+f"(c[84]), "+f"(c[85]), "+f"(c[86]),
                   "+f"(c[87]),
                   "+f"(c[88]), "+f"(c[89]), "+f"(c[90]), "+f"(c[91]), "+f"(c[92]), "+f"(c[93]), "+f"(c[94]),
                   "+f"(c[95]),
                   "+f"(c[96]), "+f"(c[97]), "+f"(c[98]), "+f"(c[99]), "+f"(c[100]), "+f"(c[101]), "+f"(c[102]),
                   "+f"(c[103]),
                   "+f"(c[104]), "+f"(c[105]), "+f"(c[106]), "+f"(c[107]), "+f"(c[108]), "+f"(c[109]), "+f"(c[110]),
                   "+f"(c[111]),
                   "+f"(c[112]), "+f"(c[113]), "+f"(c[114]), "+f"(c[115]), "+f"(c[116]), "+f"(c[117]), "+f"(c[118]),
                   "+f"(c[119]),
                   "+f"(c[120]), "+f"(c[121]), "+f"(c[122]), "+f"(c[123]), "+f"(c[124]), "+f"(c[125]), "+f"(c[126]),
                   "+f"(c[127])
                 : "l"(a), "l"(b), "r"((int)adds));
}

//// wgmma_m64n32k16_f32_bf16_bf16
// The warpgroup starts C += A B of m64n32k16, C = A B unless it adds; A along K, B along K.
__device__ __forceinline__ void wgmma_m64n32k16_f32_bf16_bf16(float *c, unsigned long long a,
    unsigned long long b, bool adds)
{
    asm volatile("{\n\t.reg .pred adds;\n\tsetp.ne.b32 adds, %18, 0;\n\t"
                 "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, "
                 "%16, %17, adds, 1, 1, 0, 0;\n\t}"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7]),
                   "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]), "+f"(c[14]), "+f"(c[15])
                 : "l"(a), "l"(b), "r"((int)adds));
}

//// wgmma_m64n32k16_f32_f16_f16_bn
// The warpgroup starts C += A B of m64n32k16, C = A B unless it adds; A along K, B along N.
__device__ __forceinline__ void wgmma_m64n32k16_f32_f16_f16_bn(float *c, unsigned long long a,
    unsigned long long b, bool adds)
{
    asm volatile("{\n\t.reg .pred adds;\n\tsetp.ne.b32 adds, %18, 0;\n\t"
                 "wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, "
                 "%16, %17, adds, 1, 1, 0, 1;\n\t}"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7]),
                   "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]), "+f"(c[14]), "+f"(c[15])
                 : "l"(a), "l"(b), "r"((int)adds));
}

//// wgmma_m64n64k16_f32_bf16_bf16
// The warpgroup starts C += A B of m64n64k16, C = A B unless it adds; A along K, B along K.
__device__ __forceinline__ void wgmma_m64n64k16_f32_bf16_bf16(float *c, unsigned long long a,
    unsigned long long b, bool adds)
{
    asm volatile("{\n\t.reg .pred adds;\n\tsetp.ne.b32 adds, %34, 0;\n\t"
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
                 "%32, %33, adds, 1, 1, 0, 0;\n\t}"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7]),
                   "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]), "+f"(c[14]), "+f"(c[15]),
                   "+f"(c[16]), "+f"(c[17]), "+f"(c[18]), "+f"(c[19]), "+f"(c[20]), "+f"(c[21]), "+f"(c[22]),
                   "+f"(c[23]),
                   "+f"(c[24]), "+f"(c[25]), "+f"(c[26]), "+f"(c[27]), "+f"(c[28]), "+f"(c[29]), "+f"(c[30]),
                   "+f"(c[31])
                 : "l"(a), "l"(b), "r"((int)adds));
}

//// wgmma_m64n64k16_f32_bf16_bf16_ar_bn
// The warpgroup starts C += A B of m64n64k16, C = A B unless it adds; A in registers, B along N.
__device__ __forceinline__ void wgmma_m64n64k16_f32_bf16_bf16_ar_bn(float *c, const unsigned *a,
    unsigned long long b, bool adds)
{
    asm volatile("{\n\t.reg .pred adds;\n\tsetp.ne.b32 adds, %37, 0;\n\t"
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
                 "{%32, %33, %34, %35}, %36, adds, 1, 1, 1;\n\t}"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7]),
                   "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]), "+f"(c[14]), "+f"(c[15]),
                   "+f"(c[16]), "+f"(c[17]), "+f"(c[18]), "+f"(c[19]), "+f"(c[20]), "+f"(c[21]), "+f"(c[22]),
                   "+f"(c[23]),
                   "+f"(c[24]), "+f"(c[25]), "+f"(c[26]), "+f"(c[27]), "+f"(c[28]), "+f"(c[29]), "+f"(c[30]),
                   "+f"(c[31])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"((int)adds));
}

//// wgmma_m64n8k32_f32_e4m3_e4m3
// The warpgroup starts C += A B of m64n8k32, C = A B unless it adds; A along K, B along K.
__device__ __forceinline__ void wgmma_m64n8k32_f32_e4m3_e4m3(float *c, unsigned long long a,
    unsigned long long b, bool adds)
{
    asm volatile("{\n\t.reg .pred adds;\n\tsetp.ne.b32 adds, %6, 0;\n\t"
                 "wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3 "
                 "{%0, %1, %2, %3}, "
                 "%4, %5, adds, 1, 1;\n\t}"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "l"(a), "l"(b), "r"((int)adds));
}

//// wgmma_wait
// Until at most `pending` of this warpgroup's groups are in flight.
template <int pending> __device__ __forceinline__ void wgmma_wait()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
}
