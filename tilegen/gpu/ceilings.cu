// What tensor cores and the units of fused multiply-adds reach where nothing else holds them up: loops of nothing but products
// of random numbers, one CTA of 8 warps on a multiprocessor. Every loop begins with ``operands``, which the host has filled,
// runs ``trips`` times, and keeps its sums only if they are ``kept``, so that no compiler can leave the products out.
// ceilings.py adds the line that makes a kernel of one of these.

#define THREADS 256
typedef unsigned long long Descriptor;

// ---------------------------------------------------------------- mma.sync: M_TILES x N_TILES sums of a warp
#define MMA_LOOP(name, types, Held, held, Sum, sum, M_TILES, N_TILES) \
    extern "C" __global__ void __launch_bounds__(THREADS, 1) \
        ceiling_##name(const Held *operands, long long trips, double kept, double *found) \
    { \
        Held a[M_TILES][4], b[N_TILES][2]; \
        Sum c[M_TILES][N_TILES][4] = {}; \
        _Pragma("unroll") for (int i = 0; i < M_TILES; ++i) \
            _Pragma("unroll") for (int k = 0; k < 4; ++k) \
                a[i][k] = operands[(i * 4 + k) * THREADS + threadIdx.x]; \
        _Pragma("unroll") for (int j = 0; j < N_TILES; ++j) \
            _Pragma("unroll") for (int k = 0; k < 2; ++k) \
                b[j][k] = operands[((M_TILES * 4) + j * 2 + k) * THREADS + threadIdx.x]; \
        _Pragma("unroll 1") for (long long t = 0; t < trips; ++t) { \
            _Pragma("unroll") for (int r = 0; r < M_TILES; ++r) \
                _Pragma("unroll") for (int i = 0; i < M_TILES; ++i) \
                    _Pragma("unroll") for (int j = 0; j < N_TILES; ++j) \
                        asm volatile("mma.sync.aligned." types " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, " \
                                     "{%0, %1, %2, %3};" \
                            : sum(c[i][j][0]), sum(c[i][j][1]), sum(c[i][j][2]), sum(c[i][j][3]) \
                            : held(a[(i + r) % M_TILES][0]), held(a[(i + r) % M_TILES][1]), \
                              held(a[(i + r) % M_TILES][2]), held(a[(i + r) % M_TILES][3]), held(b[j][0]), held(b[j][1])); \
        } \
        double all = 0.0; \
        _Pragma("unroll") for (int i = 0; i < M_TILES; ++i) \
            _Pragma("unroll") for (int j = 0; j < N_TILES; ++j) \
                _Pragma("unroll") for (int k = 0; k < 4; ++k) \
                    all += (double)c[i][j][k]; \
        if (all == kept) \
            *found = all; \
    }
#define WORD(x) "r"(x)
#define DOUBLE(x) "d"(x)
#define ADDS_FLOAT(x) "+f"(x)
#define ADDS_INT(x) "+r"(x)
#define ADDS_DOUBLE(x) "+d"(x)

// ---------------------------------------------------------------- fused multiply-adds: 8 x 8 sums of a thread
#define FMA_LOOP(name, Number, multiply_add, SIZE) \
    extern "C" __global__ void __launch_bounds__(THREADS, 1) \
        ceiling_##name(const Number *operands, long long trips, double kept, double *found) \
    { \
        Number a[SIZE], b[SIZE], c[SIZE][SIZE] = {}; \
        _Pragma("unroll") for (int i = 0; i < SIZE; ++i) { \
            a[i] = operands[i * THREADS + threadIdx.x]; \
            b[i] = operands[(SIZE + i) * THREADS + threadIdx.x]; \
        } \
        _Pragma("unroll 1") for (long long t = 0; t < trips; ++t) { \
            _Pragma("unroll") for (int r = 0; r < SIZE; ++r) \
                _Pragma("unroll") for (int i = 0; i < SIZE; ++i) \
                    _Pragma("unroll") for (int j = 0; j < SIZE; ++j) \
                        c[i][j] = multiply_add(a[(i + r) % SIZE], b[j], c[i][j]); \
        } \
        double all = 0.0; \
        _Pragma("unroll") for (int i = 0; i < SIZE; ++i) \
            _Pragma("unroll") for (int j = 0; j < SIZE; ++j) \
                all += (double)c[i][j]; \
        if (all == kept) \
            *found = all; \
    }

// ---------------------------------------------------------------- wgmma: 64 x 256 sums of each of two warpgroups
// (two trips at a time: in a loop that is not unrolled ptxas of CUDA 13.0 copies all sums from trip to trip)
#define STAGES 4            // k-tiles of 128 bytes in shared memory, as many as a kernel's ring has
#define A_BYTES (64 * 128)  // of a warpgroup
#define STAGE_BYTES (2 * A_BYTES + 256 * 128)

// Rows of 128 bytes, swizzled, groups of 8 rows behind each other (PTX ISA, wgmma: Matrix Descriptor Format).
__device__ __forceinline__ Descriptor describe(unsigned start)
{
    return 1ull << 62 | (Descriptor)(1024 >> 4) << 32 | (Descriptor)(start >> 4 & 0x3fff);
}

#define FOUR(adds, c, k) adds(c[k]), adds(c[k + 1]), adds(c[k + 2]), adds(c[k + 3])
#define SIXTEEN(adds, c, k) FOUR(adds, c, k), FOUR(adds, c, k + 4), FOUR(adds, c, k + 8), FOUR(adds, c, k + 12)
#define SIXTY_FOUR(adds, c, k) \
    SIXTEEN(adds, c, k), SIXTEEN(adds, c, k + 16), SIXTEEN(adds, c, k + 32), SIXTEEN(adds, c, k + 48)
#define SUMS \
    "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
    "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, " \
    "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, " \
    "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, " \
    "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, " \
    "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127}, "

#define WGMMA_LOOP(name, types, Sum, adds, signs) \
    extern "C" __global__ void __launch_bounds__(THREADS, 1) \
        ceiling_##name(const uint4 *operands, long long trips, double kept, double *found) \
    { \
        extern __shared__ uint4 dynamic[]; \
        const unsigned begin = (unsigned)__cvta_generic_to_shared(dynamic), start = (begin + 1023) / 1024 * 1024; \
        uint4 *stages = dynamic + (start - begin) / 16; \
        for (int k = threadIdx.x; k < STAGES * STAGE_BYTES / 16; k += THREADS) \
            stages[k] = operands[k]; \
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); \
        __syncthreads(); \
        Sum c[128] = {}; \
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); \
        _Pragma("unroll 2") for (long long t = 0; t < trips; ++t) { \
            _Pragma("unroll") for (int stage = 0; stage < STAGES; ++stage) { \
                const Descriptor a = describe(start + stage * STAGE_BYTES + threadIdx.x / 128 * A_BYTES); \
                const Descriptor b = describe(start + stage * STAGE_BYTES + 2 * A_BYTES); \
                _Pragma("unroll") for (int k = 0; k < 4; ++k) \
                    asm volatile("wgmma.mma_async.sync.aligned." types " " SUMS "%128, %129, 1" signs ";" \
                        : SIXTY_FOUR(adds, c, 0), SIXTY_FOUR(adds, c, 64) : "l"(a + 2 * k), "l"(b + 2 * k)); \
                asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); \
                asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory"); \
            } \
        } \
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory"); \
        double all = 0.0; \
        _Pragma("unroll") for (int k = 0; k < 128; ++k) \
            all += (double)c[k]; \
        if (all == kept) \
            *found = all; \
    }
