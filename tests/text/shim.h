// Runs rendered CUDA text on a CPU: one fiber per thread, clusters one after another. What the prelude wraps around PTX is
// written here a second time, in plain C++ and differently, so that an error in one shows. What every text takes alike is
// in shim.cpp, which is compiled once: no header of the standard library is here that takes g++ long to read.
#ifndef SHIM_H
#define SHIM_H
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <limits>

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __grid_constant__
#define __shared__ static __attribute__((section("cta_shared")))
#define __align__(n) __attribute__((aligned(n)))

struct dim3 { unsigned x, y, z; };
struct alignas(8) uint2 { unsigned x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
struct alignas(8) float2 { float x, y; };
struct alignas(16) float4 { float x, y, z, w; };
struct alignas(16) double2 { double x, y; };
static unsigned __byte_perm(unsigned first, unsigned second, unsigned selector)
{
    const uint64_t both = (uint64_t)second << 32 | first;
    unsigned result = 0;
    for (int k = 0; k < 4; ++k) {
        result |= (unsigned)(both >> 8 * (selector >> 4 * k & 7) & 0xff) << 8 * k;
    }
    return result;
}
using std::abs;
static int min(int a, int b) { return b < a ? b : a; }
static int max(int a, int b) { return a < b ? b : a; }
static unsigned min(unsigned a, unsigned b) { return b < a ? b : a; }
static unsigned max(unsigned a, unsigned b) { return a < b ? b : a; }
static unsigned long long min(unsigned long long a, unsigned long long b) { return b < a ? b : a; }
static unsigned long long max(unsigned long long a, unsigned long long b) { return a < b ? b : a; }
static size_t min(size_t a, size_t b) { return b < a ? b : a; }
static size_t max(size_t a, size_t b) { return a < b ? b : a; }
static long long min(long long a, long long b) { return b < a ? b : a; }
static long long max(long long a, long long b) { return a < b ? b : a; }
extern dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace cpu {
const int WARPS = 16 * 64;  // of a cluster
extern int here, threads, ctas_of_cluster;  // the rank of the CTA that runs; threads of each
extern dim3 cluster;
extern bool misled;  // has a compiler been told what does not hold?
static inline int warp() { return here * 64 + threadIdx.x / 32; }
struct Barrier { int arrived = 0; unsigned phase = 0; };
extern Barrier cta, warps[64], warpgroups[16], roles[16], multipliers[16], whole_cluster;
void meet(Barrier &b, int count);
int launch(void (*kernel)(void **), void **args, const unsigned *launch, const unsigned *ctas, int n);
void copy_later(void *to, const void *from, int bytes);
void wait_for_copies(int pending);
void commit_copies();
void tma_load(void *smem, const unsigned long long *map, std::initializer_list<int> at, unsigned long long *bar);
void tma_multicast(void *smem, const unsigned long long *map, std::initializer_list<int> at, unsigned long long *bar, int peers);
void tma_store(const void *smem, const unsigned long long *map, std::initializer_list<int> at);
void commit_stores();
void wait_for_stores(int pending);
void load_matrices(unsigned *words, const void *row, int n, bool trans);
void store_matrices(const unsigned *words, void *row, int n, bool trans);
float small_to_float(unsigned x, int exponent_bits, int mantissa_bits, bool finite);
unsigned small_from_float(float x, int exponent_bits, int mantissa_bits, bool finite);
// A thread's part of a product by wgmma; `land` makes it out of what the registers and the shared memory of its warpgroup
// hold at the wait.
struct Product { void *c; const void *a; uint64_t a_lies, b_lies; bool adds; void (*land)(const Product *of_all, char *sum); size_t bytes; };
void start_product(const Product &p);
void commit_products();
void wait_for_products(int pending);
struct Matrix { uintptr_t start; int leading, stride, swizzle; };
uint64_t number_of(const Matrix &m);
Matrix matrix_of(uint64_t number);
template <class To, class From> static To bits(From x)
{
    static_assert(sizeof(To) == sizeof(From), "bits of another size");
    To y;
    memcpy(&y, &x, sizeof y);
    return y;
}
}  // namespace cpu
#define __builtin_assume(holds) (void)(cpu::misled |= !(holds))

// A thread runs alone between two meetings, so what it does is never cut in two.
static inline unsigned long long atomicMin(unsigned long long *at, unsigned long long x)
{
    const unsigned long long old = *at;
    *at = x < old ? x : old;
    return old;
}
static inline unsigned long long atomicCAS(unsigned long long *at, unsigned long long wanted, unsigned long long x)
{
    const unsigned long long old = *at;
    *at = old == wanted ? x : old;
    return old;
}

static inline void __syncthreads() { cpu::meet(cpu::cta, cpu::threads); }
static inline void __syncwarp()
{
    const int warp = threadIdx.x / 32, left = cpu::threads - warp * 32;
    cpu::meet(cpu::warps[warp], left < 32 ? left : 32);
}
static inline float __uint_as_float(unsigned x) { return cpu::bits<float>(x); }
static inline unsigned __float_as_uint(float x) { return cpu::bits<unsigned>(x); }
static inline double __longlong_as_double(long long x) { return cpu::bits<double>(x); }

// ---- the prelude
static inline void sync_warpgroup(int wgid) { cpu::meet(cpu::warpgroups[wgid], 128); }
static inline void sync_role(int barrier, int threads) { cpu::meet(cpu::roles[barrier], threads); }
static inline void sync_cluster() { cpu::meet(cpu::whole_cluster, cpu::threads * cpu::ctas_of_cluster); }
#define STREAM(bytes, word) \
    static inline word load_stream_##bytes(const word *p) { word x; memcpy(&x, p, bytes); return x; } \
    static inline void store_stream_##bytes(word *p, word x) { memcpy(p, &x, bytes); }
STREAM(1, unsigned char)
STREAM(2, unsigned short)
STREAM(4, unsigned)
STREAM(8, uint2)
STREAM(16, uint4)
#undef STREAM
template <int bytes> static void cp_async(void *smem, const void *gmem, bool inside)
{
    cpu::copy_later(smem, inside ? gmem : nullptr, bytes);
}
static inline void cp_async_4(void *smem, const void *gmem) { cp_async<4>(smem, gmem, true); }
static inline void cp_async_8(void *smem, const void *gmem) { cp_async<8>(smem, gmem, true); }
static inline void cp_async_16(void *smem, const void *gmem) { cp_async<16>(smem, gmem, true); }
static inline void cp_async_4_or_zero(void *smem, const void *gmem, bool inside) { cp_async<4>(smem, gmem, inside); }
static inline void cp_async_8_or_zero(void *smem, const void *gmem, bool inside) { cp_async<8>(smem, gmem, inside); }
static inline void cp_async_16_or_zero(void *smem, const void *gmem, bool inside) { cp_async<16>(smem, gmem, inside); }
static inline void cp_async_commit() { cpu::commit_copies(); }
template <int pending> static void cp_async_wait() { cpu::wait_for_copies(pending); }
// Threads are fibers, and none runs between: an update is read, computed and written. Elements of 2 bytes are added as floats.
namespace cpu {
template <class T> struct Plain { using type = T; static T get(T x) { return x; } static T put(T x) { return x; } };
template <int exponent, int mantissa> struct Small {
    using type = unsigned short;
    static float get(type x) { return small_to_float(x, exponent, mantissa, false); }
    static type put(float x) { return (type)small_from_float(x, exponent, mantissa, false); }
};
struct BFloat16 {
    using type = unsigned short;
    static float get(type x) { return bits<float>((unsigned)x << 16); }
    static type put(float x) { const unsigned y = bits<unsigned>(x); return (type)((y + 0x7fff + (y >> 16 & 1)) >> 16); }
};
template <class E, int n, class Op> static void update(void *p, const void *x, Op op)
{
    for (int k = 0; k < n; ++k) {
        typename E::type held, own;
        memcpy(&held, (char *)p + k * sizeof held, sizeof held);
        memcpy(&own, (const char *)x + k * sizeof own, sizeof own);
        held = E::put(op(E::get(held), E::get(own)));
        memcpy((char *)p + k * sizeof held, &held, sizeof held);
    }
}
}  // namespace cpu
#define RED(name, E, n, op) \
    static inline void red_global_##name(void *p, const void *x) { cpu::update<E, n>(p, x, [](auto a, auto b) { return op; }); } \
    static inline void red_shared_##name(void *p, const void *x) { cpu::update<E, n>(p, x, [](auto a, auto b) { return op; }); }
#define RED_INTEGERS(signed_, unsigned_, bits_, S, U) \
    RED(min_##signed_, cpu::Plain<S>, 1, b < a ? b : a) RED(max_##signed_, cpu::Plain<S>, 1, b > a ? b : a) \
    RED(min_##unsigned_, cpu::Plain<U>, 1, b < a ? b : a) RED(max_##unsigned_, cpu::Plain<U>, 1, b > a ? b : a) \
    RED(add_##unsigned_, cpu::Plain<U>, 1, a + b) RED(and_##bits_, cpu::Plain<U>, 1, a & b) \
    RED(or_##bits_, cpu::Plain<U>, 1, a | b) RED(xor_##bits_, cpu::Plain<U>, 1, a ^ b)
RED_INTEGERS(s32, u32, b32, int, unsigned)
RED_INTEGERS(s64, u64, b64, long long, unsigned long long)
RED(add_s32, cpu::Plain<unsigned>, 1, a + b)
RED(add_f32, cpu::Plain<float>, 1, a + b) RED(add_v2_f32, cpu::Plain<float>, 2, a + b) RED(add_v4_f32, cpu::Plain<float>, 4, a + b)
RED(add_f64, cpu::Plain<double>, 1, a + b)
#define RED_SMALL(type, E) \
    RED(add_##type, E, 1, a + b) RED(add_##type##x2, E, 2, a + b) RED(add_v2_##type##x2, E, 4, a + b) RED(add_v4_##type##x2, E, 8, a + b)
using Half = cpu::Small<5, 10>;
RED_SMALL(f16, Half)
RED_SMALL(bf16, cpu::BFloat16)
#undef RED_SMALL
#undef RED_INTEGERS
#undef RED
static inline void fence_async() {}
static inline void launch_dependents() {}
static inline void wait_previous() {}
template <int n> static inline void registers_down() {}
template <int n> static inline void registers_up() {}
void mbarrier_init(unsigned long long *bar, int arrivals);
void mbarrier_expect(unsigned long long *bar, int bytes);
void mbarrier_arrive(unsigned long long *bar);
void mbarrier_arrive_peer(unsigned long long *bar, int rank);
void mbarrier_wait(unsigned long long *bar, int parity);
void cp_async_arrive(unsigned long long *bar);  // the thread's copies so far land when somebody waits here: then they arrive
static inline void mbarrier_arrive_peer_released(unsigned long long *bar, int rank) { mbarrier_arrive_peer(bar, rank); }
static inline void fence_mbarrier_init() {}
static inline void mbarrier_wait_cluster(unsigned long long *bar, int parity) { mbarrier_wait(bar, parity); }
#define MULTICAST(rank, axes, ...) \
    template <class Map> static void tma_multicast_##rank##d(void *smem, const Map *map, axes, unsigned long long *bar, int peers) \
    { \
        cpu::tma_multicast(smem, map->opaque, __VA_ARGS__, bar, peers); \
    }
#define AXES(...) __VA_ARGS__
MULTICAST(1, int x, {x})
MULTICAST(2, AXES(int x, int y), {x, y})
MULTICAST(3, AXES(int x, int y, int z), {x, y, z})
MULTICAST(4, AXES(int x, int y, int z, int u), {x, y, z, u})
MULTICAST(5, AXES(int x, int y, int z, int u, int v), {x, y, z, u, v})
#undef MULTICAST
#undef AXES
template <class Map> static void tma_load_1d(void *smem, const Map *map, int x, unsigned long long *bar)
{
    cpu::tma_load(smem, map->opaque, {x}, bar);
}
template <class Map> static void tma_store_1d(const void *smem, const Map *map, int x)
{
    cpu::tma_store(smem, map->opaque, {x});
}
template <class Map> static void tma_load_2d(void *smem, const Map *map, int x, int y, unsigned long long *bar)
{
    cpu::tma_load(smem, map->opaque, {x, y}, bar);
}
template <class Map> static void tma_store_2d(const void *smem, const Map *map, int x, int y)
{
    cpu::tma_store(smem, map->opaque, {x, y});
}
template <class Map> static void tma_load_3d(void *smem, const Map *map, int x, int y, int z, unsigned long long *bar)
{
    cpu::tma_load(smem, map->opaque, {x, y, z}, bar);
}
template <class Map> static void tma_store_3d(const void *smem, const Map *map, int x, int y, int z)
{
    cpu::tma_store(smem, map->opaque, {x, y, z});
}
template <class Map> static void tma_load_4d(void *smem, const Map *map, int x, int y, int z, int u, unsigned long long *bar)
{
    cpu::tma_load(smem, map->opaque, {x, y, z, u}, bar);
}
template <class Map> static void tma_store_4d(const void *smem, const Map *map, int x, int y, int z, int u)
{
    cpu::tma_store(smem, map->opaque, {x, y, z, u});
}
template <class Map> static void tma_load_5d(void *smem, const Map *map, int x, int y, int z, int u, int v, unsigned long long *bar)
{
    cpu::tma_load(smem, map->opaque, {x, y, z, u, v}, bar);
}
template <class Map> static void tma_store_5d(const void *smem, const Map *map, int x, int y, int z, int u, int v)
{
    cpu::tma_store(smem, map->opaque, {x, y, z, u, v});
}
static inline void tma_commit() { cpu::commit_stores(); }
template <int pending> static void tma_wait() { cpu::wait_for_stores(pending); }
static inline int cluster_ctaid_x() { return blockIdx.x % cpu::cluster.x; }
static inline int cluster_ctaid_y() { return blockIdx.y % cpu::cluster.y; }
static inline int cluster_ctaid_z() { return blockIdx.z % cpu::cluster.z; }
#define MATRICES(n) \
    static inline void ldmatrix_x##n(unsigned *w, const void *row) { cpu::load_matrices(w, row, n, false); } \
    static inline void ldmatrix_x##n##_trans(unsigned *w, const void *row) { cpu::load_matrices(w, row, n, true); } \
    static inline void stmatrix_x##n(const unsigned *w, void *row) { cpu::store_matrices(w, row, n, false); } \
    static inline void stmatrix_x##n##_trans(const unsigned *w, void *row) { cpu::store_matrices(w, row, n, true); }
MATRICES(1)
MATRICES(2)
MATRICES(4)
// A shuffle: the lanes lay out what they have, meet, and each takes its own; then they meet again.
namespace cpu { extern uint64_t words[WARPS][32]; }
template <class T> static T shuffle(T x, int lane)
{
    uint64_t (&row)[32] = cpu::words[cpu::warp()];
    std::memcpy(&row[threadIdx.x % 32], &x, sizeof(T));
    __syncwarp();
    T taken;
    std::memcpy(&taken, &row[lane < 0 || lane > 31 ? threadIdx.x % 32 : lane], sizeof(T));
    __syncwarp();
    return taken;
}
template <class T> static T __shfl_xor_sync(unsigned, T x, int lanes) { return shuffle(x, (int)(threadIdx.x % 32) ^ lanes); }
template <class T> static T __shfl_down_sync(unsigned, T x, int lanes) { return shuffle(x, (int)(threadIdx.x % 32) + lanes); }
template <class T> static T __shfl_sync(unsigned, T x, int lane) { return shuffle(x, lane & 31); }
template <class T> static T __shfl_up_sync(unsigned, T x, int lanes) { return shuffle(x, (int)(threadIdx.x % 32) - lanes); }
// Functions of expressions.
static inline float __fmul_rn(float a, float b) { return a * b; }
static inline double __dmul_rn(double a, double b) { return a * b; }
static inline float __fdividef(float a, float b) { return a / b; }
static inline float rsqrtf(float x) { return (float)(1 / std::sqrt((double)x)); }
static inline double rsqrt(double x) { return 1 / std::sqrt(x); }
static inline double hidden_zero() { return 0; }
static inline int negate_int(int x) { return -x; }
static inline int min_int(int a, int b) { return std::min(a, b); }
static inline int max_int(int a, int b) { return std::max(a, b); }
static inline float exp2_approx(float x)
{
    const float y = std::exp2(x);
    return y < 0x1p-126f ? 0.0f : y;
}
template <class T> static T floor_div(T a, T b)
{
    __int128 q = a / b;
    while (b > 0 ? q * b > a : q * b < a) --q;
    return (T)q;
}
template <class T> static T floor_mod(T a, T b) { return a - floor_div(a, b) * b; }
// Bits, one after another.
template <class T> static T shift_left(T x, T count)
{
    const int bits = 8 * sizeof x;
    for (int k = 0; k < bits && (count < 0 || (T)k < count); ++k) x = (T)(x + x);
    return x;
}
template <class T> static T shift_right(T x, T count)
{
    const int bits = 8 * sizeof x;
    for (int k = 0; k < bits && (count < 0 || (T)k < count); ++k) x = floor_div<T>(x, 2);
    return x;
}
static inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((uint64_t)a * b >> 32); }
static inline int __mulhi(int a, int b) { return (int)((int64_t)a * b >> 32); }
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) { return (unsigned long long)((unsigned __int128)a * b >> 64); }
static inline long long __mul64hi(long long a, long long b) { return (long long)((__int128)a * b >> 64); }
static inline int __popc(unsigned x) { int n = 0; for (; x; x &= x - 1) ++n; return n; }
static inline int __popcll(unsigned long long x) { return __popc((unsigned)x) + __popc((unsigned)(x >> 32)); }
static inline int __clz(unsigned x) { int n = 32; for (; x; x /= 2) --n; return n; }
static inline int __clzll(unsigned long long x) { int n = 64; for (; x; x /= 2) --n; return n; }
static inline float half_to_float(unsigned short x) { return (float)cpu::bits<_Float16>(x); }
static inline unsigned short float_to_half(float x) { return cpu::bits<unsigned short>((_Float16)x); }
static inline unsigned short double_to_half(double x) { return cpu::bits<unsigned short>((_Float16)x); }
static inline float bfloat16_to_float(unsigned short x) { return cpu::bits<float>((unsigned)x << 16); }
static inline unsigned short float_to_bfloat16(float x)
{
    const unsigned u = cpu::bits<unsigned>(x);
    if (std::isnan(x)) return u >> 16 | 0x40;
    const unsigned low = u & 0xffff, high = u >> 16;
    return high + (low > 0x8000 || (low == 0x8000 && high % 2));
}
static inline float e4m3_to_float(unsigned char x) { return cpu::small_to_float(x, 4, 3, true); }
static inline float e5m2_to_float(unsigned char x) { return cpu::small_to_float(x, 5, 2, false); }
template <class T, class F> static T saturate(F x, F whole)
{
    typedef std::numeric_limits<T> limits;
    if (x != x) return 0;
    if (whole <= (F)limits::min()) return limits::min();
    return whole >= (F)limits::max() ? limits::max() : (T)whole;
}
template <class T> static T clamp_to(long long x)
{
    return (T)min(max(x, (long long)std::numeric_limits<T>::min()), (long long)std::numeric_limits<T>::max());
}
#define CUT_TO_INTEGER(name, c) \
    static inline c float_cut_to_##name(float x) { return saturate<c>(x, std::trunc(x)); } \
    static inline c double_cut_to_##name(double x) { return saturate<c>(x, std::trunc(x)); }
#define TO_INTEGER(name, c) \
    static inline c int_to_##name(long long x) { return clamp_to<c>(x); } \
    static inline c uint_to_##name(unsigned long long x) { return x > (unsigned long long)std::numeric_limits<c>::max() ? std::numeric_limits<c>::max() : (c)x; } \
    static inline c float_to_##name(float x) { return saturate<c>(x, std::nearbyint(x)); } \
    static inline c double_to_##name(double x) { return saturate<c>(x, std::nearbyint(x)); } \
    CUT_TO_INTEGER(name, c)
TO_INTEGER(int8, signed char)
TO_INTEGER(uint8, unsigned char)
TO_INTEGER(int16, short)
TO_INTEGER(uint16, unsigned short)
TO_INTEGER(int32, int)
TO_INTEGER(uint32, unsigned)
TO_INTEGER(int64, long long)
CUT_TO_INTEGER(uint64, unsigned long long)
static inline unsigned long long int_to_uint64(long long x) { return x < 0 ? 0 : x; }
static inline unsigned long long float_to_uint64(float x) { return saturate<unsigned long long>(x, std::nearbyint(x)); }
static inline unsigned long long double_to_uint64(double x) { return saturate<unsigned long long>(x, std::nearbyint(x)); }
static inline unsigned char float_to_e4m3(float x) { return cpu::small_from_float(x, 4, 3, true); }
static inline unsigned char float_to_e5m2(float x) { return cpu::small_from_float(x, 5, 2, false); }
static inline unsigned char float_to_e4m3_saturated(float x) { return float_to_e4m3(x > 448 ? 448 : x < -448 ? -448 : x); }
static inline unsigned char float_to_e5m2_saturated(float x) { return float_to_e5m2(x > 57344 ? 57344 : x < -57344 ? -57344 : x); }
// mma.sync, every element looked up where PTX puts it: the lanes lay out where their fragments are, meet, and each makes
// its own part of C out of a row of A and a column of B; then they meet again.
namespace cpu {
struct F16 { typedef uint16_t Bits; typedef unsigned Word; static double value(Bits x) { return half_to_float(x); } };
struct BF16 { typedef uint16_t Bits; typedef unsigned Word; static double value(Bits x) { return small_to_float(x, 8, 7, false); } };
struct E4M3 { typedef uint8_t Bits; typedef unsigned Word; static double value(Bits x) { return small_to_float(x, 4, 3, true); } };
struct E5M2 { typedef uint8_t Bits; typedef unsigned Word; static double value(Bits x) { return small_to_float(x, 5, 2, false); } };
struct S8 { typedef int8_t Bits; typedef unsigned Word; static double value(Bits x) { return x; } };
struct U8 { typedef uint8_t Bits; typedef unsigned Word; static double value(Bits x) { return x; } };
struct F64 { typedef double Bits; typedef double Word; static double value(Bits x) { return x; } };
// 11 significant bits, ties away from zero
struct TF32
{
    typedef float Bits;
    typedef float Word;
    static double value(Bits x)
    {
        int e;
        const double m = std::frexp((double)x, &e);
        return std::isfinite(x) ? std::ldexp(std::round(std::ldexp(m, 11)), e - 11) : x;
    }
};
// the same, the last 13 bits dropped
struct TF32_CUT
{
    typedef float Bits;
    typedef float Word;
    static double value(Bits x)
    {
        unsigned bits;
        std::memcpy(&bits, &x, 4);
        bits &= std::isnan(x) ? 0xffffffffu : 0xffffe000u;
        std::memcpy(&x, &bits, 4);
        return x;
    }
};
// `value` of each of the few bits that a type of 1 or 2 bytes has, found once
template <class T> static double value_of(typename T::Bits x)
{
    typedef typename T::Bits Bits;
    if (sizeof(Bits) > 2) return T::value(x);
    const size_t count = (size_t)1 << 8 * (sizeof(Bits) < 2 ? 1 : 2);
    static double *known = nullptr;
    if (!known) {
        known = (double *)malloc(count * sizeof(double));
        for (size_t i = 0; i < count; ++i) {
            Bits bits;
            memcpy(&bits, &i, sizeof bits < 2 ? 1 : 2);
            known[i] = T::value(bits);
        }
    }
    size_t i = 0;
    memcpy(&i, &x, sizeof x < 2 ? 1 : 2);
    return known[i];
}
struct Fragment { const void *a, *b; };
extern Fragment fragments[WARPS][32];
static inline int add(int c, double x) { return (int)((unsigned)c + (unsigned)(long long)x); }
static inline float add(float c, double x) { return (float)(c + x); }
static inline double add(double c, double x) { return c + x; }
template <class A, class B> static double row_times_column(int row, int column, int rows, int depth)
{
    const Fragment *lanes = fragments[warp()];
    // elements of a register, and of the registers side by side that a lane has: along K four lanes share what is in one
    const int va = sizeof(typename A::Bits) < 4 ? 4 / sizeof(typename A::Bits) : 1;
    const int vb = sizeof(typename B::Bits) < 4 ? 4 / sizeof(typename B::Bits) : 1;
    double sum = 0;
    for (int k = 0; k < depth; ++k) {
        const int of_a = row % 8 * 4 + k / va % 4, at_a = k % va + va * (row / 8) + va * (rows / 8) * (k / va / 4);
        const int of_b = column * 4 + k / vb % 4, at_b = k % vb + vb * (k / vb / 4);
        sum += value_of<A>(((const typename A::Bits *)lanes[of_a].a)[at_a]) * value_of<B>(((const typename B::Bits *)lanes[of_b].b)[at_b]);
    }
    return sum;
}
template <class A, class B, class D> static void multiply(D *c, const void *a, const void *b, int rows, int depth)
{
    const int lane = threadIdx.x % 32;
    fragments[warp()][lane] = {a, b};
    __syncwarp();
    for (int i = 0; i < rows / 4; ++i) c[i] = add(c[i], row_times_column<A, B>(lane / 4 + 8 * (i / 2), lane % 4 * 2 + i % 2, rows, depth));
    __syncwarp();
}
template <int rows, int depth> static void multiply_halves(unsigned *c, const unsigned *a, const unsigned *b)
{
    float wide[4];
    for (int i = 0; i < 4; ++i) wide[i] = half_to_float(c[i / 2] >> 16 * (i % 2) & 0xffff);
    multiply<F16, F16>(wide, a, b, rows, depth);
    for (int i = 0; i < 2; ++i) c[i] = float_to_half(wide[2 * i]) | (unsigned)float_to_half(wide[2 * i + 1]) << 16;
}
}  // namespace cpu
#define MMA(name, D, m, n, k, A, B) \
    static inline void name(D *c, const cpu::A::Word *a, const cpu::B::Word *b) { cpu::multiply<cpu::A, cpu::B>(c, a, b, m, k); }
MMA(mma_m16n8k16_f32_f16_f16_f32, float, 16, 8, 16, F16, F16)
MMA(mma_m16n8k16_f32_bf16_bf16_f32, float, 16, 8, 16, BF16, BF16)
MMA(mma_m16n8k8_f32_f16_f16_f32, float, 16, 8, 8, F16, F16)
MMA(mma_m16n8k8_f32_bf16_bf16_f32, float, 16, 8, 8, BF16, BF16)
MMA(mma_m16n8k8_f32_tf32_tf32_f32, float, 16, 8, 8, TF32, TF32)
MMA(mma_m16n8k4_f32_tf32_tf32_f32, float, 16, 8, 4, TF32, TF32)
MMA(mma_m16n8k32_s32_s8_s8_s32, int, 16, 8, 32, S8, S8)
MMA(mma_m16n8k32_s32_s8_u8_s32, int, 16, 8, 32, S8, U8)
MMA(mma_m16n8k32_s32_u8_s8_s32, int, 16, 8, 32, U8, S8)
MMA(mma_m16n8k32_s32_u8_u8_s32, int, 16, 8, 32, U8, U8)
MMA(mma_m16n8k32_f32_e4m3_e4m3_f32, float, 16, 8, 32, E4M3, E4M3)
MMA(mma_m16n8k32_f32_e4m3_e5m2_f32, float, 16, 8, 32, E4M3, E5M2)
MMA(mma_m16n8k32_f32_e5m2_e4m3_f32, float, 16, 8, 32, E5M2, E4M3)
MMA(mma_m16n8k32_f32_e5m2_e5m2_f32, float, 16, 8, 32, E5M2, E5M2)
MMA(mma_m8n8k4_f64_f64_f64_f64, double, 8, 8, 4, F64, F64)
MMA(mma_m16n8k4_f64_f64_f64_f64, double, 16, 8, 4, F64, F64)
MMA(mma_m16n8k8_f64_f64_f64_f64, double, 16, 8, 8, F64, F64)
MMA(mma_m16n8k16_f64_f64_f64_f64, double, 16, 8, 16, F64, F64)
#undef MMA
static inline void mma_m16n8k16_f16_f16_f16_f16(unsigned *c, const unsigned *a, const unsigned *b) { cpu::multiply_halves<16, 16>(c, a, b); }
static inline void mma_m16n8k8_f16_f16_f16_f16(unsigned *c, const unsigned *a, const unsigned *b) { cpu::multiply_halves<16, 8>(c, a, b); }
// wgmma: products are made at the wait for their group, element by element where PTX says that each lies.
namespace cpu {
// Canonical layouts of PTX: atoms of 8 rows of the swizzle's bytes, whichever dimension runs along the rows.
template <class T> static double element(uint64_t number, bool along_rows, int row, int k)
{
    Matrix m = matrix_of(number >> 24);
    m.start += (number & 0xffffff) << 4;
    const int size = sizeof(typename T::Bits), wide = m.swizzle ? m.swizzle : 16;
    int inner = (along_rows ? row : k) * size, outer = along_rows ? k : row;
    int from_panel = m.leading, from_group = m.stride;
    if (along_rows && !m.swizzle) from_panel = m.stride, from_group = m.leading;
    if (!along_rows && m.swizzle) from_panel = wide;  // never another panel: 32 bytes of K are in one
    const int panel = !along_rows && m.swizzle ? 0 : inner / wide;
    inner -= panel * wide;
    const uintptr_t place = m.start + panel * from_panel + outer / 8 * from_group + outer % 8 * wide + inner;
    const uintptr_t swapped = m.swizzle ? place ^ (place >> 3 & (m.swizzle - 1) & ~(uintptr_t)15) : place;
    typename T::Bits bits;
    std::memcpy(&bits, (const void *)swapped, size);
    return value_of<T>(bits);
}
struct SumF32 { static float get(const char *c, int i) { return ((const float *)c)[i]; } static void put(char *c, int i, double x) { ((float *)c)[i] = (float)x; } enum { bytes = 4 }; };
struct SumS32 { static int get(const char *c, int i) { return ((const int *)c)[i]; } static void put(char *c, int i, double x) { ((int *)c)[i] = (int)(unsigned)(long long)x; } enum { bytes = 4 }; };
struct SumF16 { static float get(const char *c, int i) { return half_to_float(((const unsigned short *)c)[i]); } static void put(char *c, int i, double x) { ((unsigned short *)c)[i] = float_to_half((float)x); } enum { bytes = 2 }; };
template <class D, class A, class B, int n, int depth, bool held, bool a_mn, bool b_mn> static void land(const Product *of_all, char *sum)
{
    const int me = threadIdx.x % 128, lane = me % 32, v = 4 / sizeof(typename A::Bits);
    double a[2][depth], b[2][depth];  // two rows of A, and of B the two columns that the thread has of eight
    for (int half = 0; half < 2; ++half) {
        const int row = me / 32 * 16 + lane / 4 + half * 8;
        for (int k = 0; k < depth; ++k) {
            if (held) {
                const int of = row / 16 * 32 + row % 8 * 4 + k / v % 4, at = k % v + v * (row / 8 % 2) + 2 * v * (k / v / 4);
                a[half][k] = value_of<A>(((const typename A::Bits *)of_all[of].a)[at]);
            } else {
                a[half][k] = element<A>(of_all[me].a_lies, a_mn, row, k);
            }
        }
    }
    for (int i = 0; i < n / 2; ++i) {
        for (int k = 0; i % 4 == 0 && k < depth; ++k) {
            for (int odd = 0; odd < 2; ++odd) b[odd][k] = element<B>(of_all[me].b_lies, b_mn, i / 4 * 8 + lane % 4 * 2 + odd, k);
        }
        double x = of_all[me].adds ? (double)D::get(sum, i) : 0;
        for (int k = 0; k < depth; ++k) x += a[i / 2 % 2][k] * b[i % 2][k];
        D::put(sum, i, x);
    }
}
static inline uint64_t lies_of(uint64_t matrix) { return matrix; }
static inline uint64_t lies_of(const unsigned *) { return 0; }
static inline const void *held_of(uint64_t) { return nullptr; }
static inline const void *held_of(const unsigned *a) { return a; }
}  // namespace cpu
template <int leading, int stride, int swizzle> static unsigned long long matrix_descriptor(const void *smem)
{
    return cpu::number_of({(uintptr_t)smem, leading, stride, swizzle});
}
template <int count, class T> static void keep_registers(T *) {}
static inline void wgmma_fence() { cpu::meet(cpu::multipliers[threadIdx.x / 128], 128); }
static inline void wgmma_commit() { cpu::commit_products(); }
template <int pending> static void wgmma_wait() { cpu::wait_for_products(pending); }
// One function for each that a text calls: run.py writes these lines.
#define WGMMA(name, n, depth, D, A, B, held, a_mn, b_mn) \
    template <class C, class Left> static void name(C *c, Left a, unsigned long long b, bool adds) \
    { \
        cpu::start_product({c, cpu::held_of(a), cpu::lies_of(a), b, adds, cpu::land<cpu::D, cpu::A, cpu::B, n, depth, held, a_mn, b_mn>, n / 2 * cpu::D::bytes}); \
    }
#endif
