// What measuring needs on the GPU beside the kernels that are measured: plain loops over bytes, so that they are right.

__device__ __forceinline__ long long first() { return blockIdx.x * (long long)blockDim.x + threadIdx.x; }
__device__ __forceinline__ long long step() { return gridDim.x * (long long)blockDim.x; }

// Keeps a stream busy for some clocks, so that what the host enqueues behind it starts without waiting for the host.
extern "C" __global__ void hold(long long clocks)
{
    const long long start = clock64();
    while (clock64() - start < clocks) {
    }
}

// Reads an array, so that the L2 holds it and nothing else. What is read must be used: the sum is kept if it is ``kept``.
extern "C" __global__ void read_through(const unsigned *words, long long count, unsigned kept, unsigned *sum)
{
    unsigned all = 0;
    for (long long i = first(); i < count; i += step())
        all += words[i];
    if (all == kept)
        *sum = all;
}

// Bits of (seed, i), mixed as splitmix64 does.
__device__ __forceinline__ unsigned long long mixed(unsigned long long seed, long long i)
{
    unsigned long long z = (seed << 40) + (unsigned long long)i * 0x9E3779B97F4A7C15ull;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}

// Byte i is bits of (seed, i); ``mask`` keeps a bool a bool.
extern "C" __global__ void fill_random(unsigned char *bytes, long long count, unsigned long long seed, int mask)
{
    for (long long i = first(); i < count; i += step())
        bytes[i] = (unsigned char)(mixed(seed, i) & mask);
}

// Elements of random normal numbers. Of a float type: ``digits`` bits after the point and exponents from ``least`` on,
// rounded to nearest even. No digits, -1: an integer, of numbers 40 times as wide, cut off at 127.
extern "C" __global__ void fill_normal(
    unsigned char *bytes, long long count, unsigned long long seed, int elem_bytes, int digits, int least)
{
    for (long long i = first(); i < count; i += step()) {
        const unsigned long long z = mixed(seed, i);
        const double radius = sqrt(-2.0 * log(((double)(z >> 32) + 0.5) / 4294967296.0));
        const double x = radius * cospi((double)(unsigned)z / 2147483648.0), size = fabs(x);
        unsigned long long bits;
        if (digits < 0) {
            const long long number = (long long)fmin(rint(40.0 * size), 127.0);
            bits = (unsigned long long)(x < 0 ? -number : number);
        } else {
            const int raised = ilogb(size), exponent = raised > least ? raised : least;
            bits = ((unsigned long long)(exponent - least) << digits)
                + (unsigned long long)rint(ldexp(size, digits - exponent))
                + ((unsigned long long)(x < 0) << (8 * elem_bytes - 1));
        }
        for (int b = 0; b < elem_bytes; ++b)
            bytes[i * elem_bytes + b] = (unsigned char)(bits >> 8 * b);
    }
}

// found[0] counts the bytes that differ, found[1] is the least index of one; it starts as the number of bytes.
extern "C" __global__ void compare_bytes(
    const unsigned char *a, const unsigned char *b, long long count, unsigned long long *found)
{
    for (long long i = first(); i < count; i += step())
        if (a[i] != b[i]) {
            atomicAdd(&found[0], 1ull);
            atomicMin(&found[1], (unsigned long long)i);
        }
}

// dst is a dense array of ``sizes``, whose element at (i0, i1, ...) is src[i0 * strides[0] + i1 * strides[1] + ...].
extern "C" __global__ void gather_bytes(
    const unsigned char *src, unsigned char *dst, const long long *sizes, const long long *strides, int rank,
    int elem_bytes, long long count)
{
    for (long long i = first(); i < count; i += step()) {
        long long rest = i / elem_bytes, from = 0;
        for (int d = rank - 1; d >= 0; --d) {
            from += rest % sizes[d] * strides[d];
            rest /= sizes[d];
        }
        dst[i] = src[from * elem_bytes + i % elem_bytes];
    }
}

// The number that an element is; of formats as fill_normal has them, ``scale`` is 2 to the power of least + 126.
__device__ __forceinline__ double number_at(
    const unsigned char *bytes, long long at, int elem_bytes, int digits, float scale)
{
    if (elem_bytes == 8)
        return ((const double *)bytes)[at];
    if (digits < 0)
        return elem_bytes == 1 ? (double)((const signed char *)bytes)[at] : (double)((const int *)bytes)[at];
    const unsigned bits = elem_bytes == 1 ? bytes[at]
        : elem_bytes == 2                 ? ((const unsigned short *)bytes)[at]
                                          : ((const unsigned *)bytes)[at];
    const unsigned sign = bits >> (8 * elem_bytes - 1);
    union {
        unsigned bits;
        float number;
    } size; // the exponent where a float has it: off by a power of two, exact for denormals too
    size.bits = (bits - (sign << (8 * elem_bytes - 1))) << (23 - digits);
    return (sign ? -1.0 : 1.0) * (double)(size.number * scale);
}

// sums[r * columns + j] = the sum over k of a[a_at[r] + k * a_step] * b[b_at[r] + k * b_step + j * b_next], as if summed
// in twice the digits of a double, then rounded (Ogita, Rump, Oishi: Accurate Sum and Dot Product, Dot2).
extern "C" __global__ void multiply_rows(
    const unsigned char *a, const unsigned char *b, double *sums, const long long *a_at, const long long *b_at,
    long long count, long long columns, long long depth, long long a_step, long long b_step, long long b_next,
    int a_bytes, int a_digits, int a_least, int b_bytes, int b_digits, int b_least)
{
    const float a_scale = ldexpf(1.0f, a_least + 126), b_scale = ldexpf(1.0f, b_least + 126);
    for (long long i = first(); i < count; i += step()) {
        const long long row = a_at[i / columns], column = b_at[i / columns] + i % columns * b_next;
        double sum = 0.0, rest = 0.0;
        for (long long k = 0; k < depth; ++k) {
            const double x = number_at(a, row + k * a_step, a_bytes, a_digits, a_scale);
            const double y = number_at(b, column + k * b_step, b_bytes, b_digits, b_scale);
            const double product = __dmul_rn(x, y), next = __dadd_rn(sum, product), back = __dadd_rn(next, -sum);
            rest += __dadd_rn(__dadd_rn(sum, -__dadd_rn(next, -back)), __dadd_rn(product, -back));
            rest += fma(x, y, -product);
            sum = next;
        }
        sums[i] = sum + rest;
    }
}
