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

// Byte i is bits of (seed, i), mixed as splitmix64 does; ``mask`` keeps a bool a bool.
extern "C" __global__ void fill_random(unsigned char *bytes, long long count, unsigned long long seed, int mask)
{
    for (long long i = first(); i < count; i += step()) {
        unsigned long long z = (seed << 40) + (unsigned long long)i * 0x9E3779B97F4A7C15ull;
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
        bytes[i] = (unsigned char)((z ^ (z >> 31)) & mask);
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
