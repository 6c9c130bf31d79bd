// What every rendered text takes alike of a CPU: threads as fibers, barriers, copies and products on their way.
#include "shim.h"

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <ucontext.h>
#include <vector>

dim3 threadIdx, blockIdx, blockDim, gridDim;
// The shared memory of the CTA that runs; there is one copy of it for each other CTA of the cluster.
extern char __start_cta_shared[], __stop_cta_shared[];
__shared__ __attribute__((used)) char cta_shared_has_something;

namespace cpu {
int here, threads, ctas_of_cluster;
dim3 cluster;
bool misled = false;
Barrier cta, warps[64], warpgroups[16], roles[16], multipliers[16], whole_cluster;
uint64_t words[WARPS][32];
Fragment fragments[WARPS][32];
const size_t STACK_BYTES = 1 << 16;
struct Fiber { ucontext_t context; std::unique_ptr<char[]> stack; bool done; };
static std::vector<Fiber> fibers;
static ucontext_t scheduler;
static int current, finished;
static bool progress;
static void (*body)(void **);
static void **arguments;
// A thread's asynchronous copies: the open group is the last. Until a wait, nothing of them is done but harm.
struct Copy { void *to; const void *from; int bytes; };
typedef std::vector<Copy> Group;
static void land(const Copy &c)
{
    if (c.from) memcpy(c.to, c.from, c.bytes); else memset(c.to, 0, c.bytes);
}
static std::vector<std::deque<Group>> copies;
// A thread's products in flight, in groups as its copies are; until they are made its accumulator holds poison.
struct Sum { std::vector<char> real; int flying = 0; };
static std::vector<std::deque<std::vector<Product>>> products;
static std::vector<std::map<void *, Sum>> sums;
// What a test's descriptor points to: 64-bit words, the innermost dimension first.
struct Map { char *base; unsigned long long rank, elem_bytes, swizzle_bytes, dims[5], strides[5], box[5]; };
// A box on its way; loads land when somebody waits at their mbarrier, stores leave when their thread waits.
struct Box { const Map *map; int at[5]; char *smem; unsigned long long *bar; };
struct Mbarrier { int arrivals, left; long long bytes; int phase; std::vector<Box> boxes; std::vector<Group> copies; };
static std::map<unsigned long long *, Mbarrier> mbarriers;
static std::vector<std::deque<std::vector<Box>>> stores;
// What is a CTA's own, while another CTA of its cluster runs.
struct Cta {
    dim3 block;
    Barrier cta, warps[64], warpgroups[16], roles[16], multipliers[16];
    std::vector<std::deque<Group>> copies;
    std::vector<std::deque<std::vector<Product>>> products;
    std::vector<std::map<void *, Sum>> sums;
    std::map<unsigned long long *, Mbarrier> mbarriers;
    std::vector<std::deque<std::vector<Box>>> stores;
    std::vector<char> shared;
};
static std::vector<Cta> others;
static void exchange(Cta &c)
{
    std::swap(c.block, blockIdx);
    std::swap(c.cta, cta);
    std::swap(c.warps, warps);
    std::swap(c.warpgroups, warpgroups);
    std::swap(c.roles, roles);
    std::swap(c.multipliers, multipliers);
    std::swap(c.products, products);
    std::swap(c.sums, sums);
    std::swap(c.copies, copies);
    std::swap(c.mbarriers, mbarriers);
    std::swap(c.stores, stores);
    std::swap_ranges(__start_cta_shared, __stop_cta_shared, c.shared.data());
}
static void enter_cta(int rank)
{
    if (rank == here) return;
    exchange(others[here]);
    exchange(others[rank]);
    here = rank;
}
static const Map *read_map(const unsigned long long *opaque) { return (const Map *)opaque[0]; }
static long long bytes_of(const Map &m)
{
    long long bytes = m.elem_bytes;
    for (unsigned d = 0; d < m.rank; ++d) bytes *= m.box[d];
    return bytes;
}
static void move_box(const Box &b, bool load, bool poison)
{
    const Map &m = *b.map;
    unsigned long long i[5] = {0}, place = (unsigned long long)b.smem;
    while (i[m.rank - 1] < m.box[m.rank - 1]) {
        char *g = m.base;
        bool inside = true;
        for (unsigned d = 0; d < m.rank; ++d) {
            const unsigned long long c = b.at[d] + i[d];
            inside = inside && c < m.dims[d];
            g += c * (d ? m.strides[d - 1] : m.elem_bytes);
        }
        // 16-byte chunks of a row trade places: in bits 4.., those of bits 7.. are flipped
        char *s = (char *)(place ^ (m.swizzle_bytes ? (place >> 3 & (m.swizzle_bytes - 1) & ~15ull) : 0));
        if (poison) memset(s, 0xA5, m.elem_bytes);
        else if (load && inside) memcpy(s, g, m.elem_bytes);
        else if (load) memset(s, 0, m.elem_bytes);
        else if (inside) memcpy(g, s, m.elem_bytes);
        place += m.elem_bytes;
        for (unsigned d = 0; d < m.rank && ++i[d] == m.box[d] && d + 1 < m.rank; ++d) i[d] = 0;
    }
}

static void yield()
{
    const int me = current;
    swapcontext(&fibers[me].context, &scheduler);
    threadIdx.x = me % threads;
}
void meet(Barrier &b, int count)
{
    const unsigned phase = b.phase;
    if (++b.arrived == count) {
        b.arrived = 0;
        b.phase++;
        progress = true;
    }
    while (b.phase == phase) {
        yield();
    }
}
static void enter()
{
    body(arguments);
    fibers[current].done = progress = true;
    ++finished;
    swapcontext(&fibers[current].context, &scheduler);
}
// false: threads wait at barriers that the others never reach; blocks: of the CTAs of a cluster, by their ranks
static bool run_cluster(const std::vector<dim3> &blocks)
{
    const int count = blocks.size(), all = count * threads;
    others.assign(count, Cta());
    ctas_of_cluster = count;
    for (int rank = 0; rank < count; ++rank) {
        others[rank].block = blocks[rank];
        others[rank].copies.assign(threads, std::deque<Group>(1));
        others[rank].stores.assign(threads, std::deque<std::vector<Box>>(1));
        others[rank].products.assign(threads, std::deque<std::vector<Product>>(1));
        others[rank].sums.assign(threads, std::map<void *, Sum>());
        others[rank].shared.assign(__start_cta_shared, __stop_cta_shared);
    }
    whole_cluster = Barrier();
    here = 0;
    exchange(others[0]);
    fibers.resize(all);
    finished = 0;
    for (auto &f : fibers) {
        if (!f.stack) f.stack.reset(new char[STACK_BYTES]);
        f.done = false;
        getcontext(&f.context);
        f.context.uc_stack.ss_sp = f.stack.get();
        f.context.uc_stack.ss_size = STACK_BYTES;
        f.context.uc_link = &scheduler;
        makecontext(&f.context, enter, 0);
    }
    while (finished < all) {
        progress = false;
        for (int i = 0; i < all; ++i) {
            if (fibers[i].done) continue;
            enter_cta(i / threads);
            current = i;
            threadIdx.x = i % threads;
            swapcontext(&scheduler, &fibers[i].context);
        }
        if (!progress) return false;
    }
    return true;
}
// ctas: n triples (bx, by, bz), clusters one after another and in each the CTAs by their ranks; launch: grid, cluster, threads
int launch(void (*kernel)(void **), void **args, const unsigned *launch, const unsigned *ctas, int n)
{
    gridDim = {launch[0], launch[1], launch[2]};
    cluster = {launch[3], launch[4], launch[5]};
    threads = launch[6];
    blockDim = {launch[6], 1, 1};
    body = kernel;
    arguments = args;
    const int size = cluster.x * cluster.y * cluster.z;
    for (int i = 0; i < n; i += size) {
        std::vector<dim3> blocks;
        for (int rank = 0; rank < size; ++rank) {
            const unsigned *at = ctas + 3 * (i + rank);
            blocks.push_back({at[0], at[1], at[2]});
            if (at[0] % cluster.x + cluster.x * (at[1] % cluster.y + cluster.y * (at[2] % cluster.z)) != unsigned(rank)) return 2;
        }
        if (!run_cluster(blocks)) return 1;
    }
    return misled ? 3 : 0;
}
// a float of few bits, from its definition: no infinity if `finite`, then the largest exponent holds numbers too
float small_to_float(unsigned x, int exponent_bits, int mantissa_bits, bool finite)
{
    const int sign = x >> (exponent_bits + mantissa_bits) & 1, e = x >> mantissa_bits & ((1 << exponent_bits) - 1);
    const int m = x & ((1 << mantissa_bits) - 1), last = (1 << exponent_bits) - 1, bias = (1 << (exponent_bits - 1)) - 1;
    const bool nan = e == last && (finite ? m == (1 << mantissa_bits) - 1 : m != 0);
    float y = nan ? NAN : e == last && !finite ? INFINITY
            : std::ldexp(float(e ? m + (1 << mantissa_bits) : m), (e ? e : 1) - bias - mantissa_bits);
    return sign ? -y : y;
}
// the nearest such number, even mantissa at a tie; one step beyond the largest stands for what overflows
unsigned small_from_float(float x, int exponent_bits, int mantissa_bits, bool finite)
{
    const unsigned sign = std::signbit(x) ? 1u << (exponent_bits + mantissa_bits) : 0, ones = sign ? sign - 1 : (1u << (exponent_bits + mantissa_bits)) - 1;
    const unsigned beyond = finite ? ones : ((1u << exponent_bits) - 1) << mantissa_bits;
    if (std::isnan(x)) return sign | (finite ? ones : beyond | 1 << (mantissa_bits - 1));
    const double a = std::fmin(std::fabs((double)x), 1e6);  // more is beyond all of them, and distances stay exact
    unsigned best = 0;
    double best_distance = a;
    for (unsigned c = 1; c <= beyond; ++c) {
        const double value = c < beyond ? small_to_float(c, exponent_bits, mantissa_bits, finite)
                           : 2.0 * small_to_float(c - 1, exponent_bits, mantissa_bits, finite) - small_to_float(c - 2, exponent_bits, mantissa_bits, finite);
        const double distance = std::fabs(a - value);
        if (distance < best_distance || (distance == best_distance && c % 2 == 0)) best = c, best_distance = distance;
    }
    return sign | best;
}
void copy_later(void *to, const void *from, int bytes)
{
    memset(to, 0xA5, bytes);
    copies[threadIdx.x].back().push_back({to, from, bytes});
}
void commit_copies() { copies[threadIdx.x].emplace_back(); }
void wait_for_copies(int pending)
{
    std::deque<Group> &groups = copies[threadIdx.x];
    for (; groups.size() > (size_t)pending + 1; groups.pop_front()) {
        for (const Copy &c : groups.front()) land(c);
    }
}
}  // namespace cpu
void mbarrier_init(unsigned long long *bar, int arrivals) { cpu::mbarriers[bar] = {arrivals, arrivals, 0, 0, {}, {}}; }
static void mbarrier_complete(cpu::Mbarrier &b)
{
    if (b.left || b.bytes) return;
    b.left = b.arrivals;
    ++b.phase;
    cpu::progress = true;
}
void mbarrier_expect(unsigned long long *bar, int bytes)
{
    cpu::Mbarrier &b = cpu::mbarriers[bar];
    --b.left;
    b.bytes += bytes;
    cpu::progress = true;  // threads that ran before may find what was brought
    mbarrier_complete(b);
}
void mbarrier_arrive(unsigned long long *bar) { mbarrier_expect(bar, 0); }
// The thread's copies so far land when somebody waits here: then they arrive.
void cp_async_arrive(unsigned long long *bar)
{
    std::deque<cpu::Group> &groups = cpu::copies[threadIdx.x];
    cpu::Group all;
    for (cpu::Group &group : groups) {
        all.insert(all.end(), group.begin(), group.end());
        group.clear();
    }
    cpu::mbarriers[bar].copies.push_back(all);
    cpu::progress = true;
}
void mbarrier_arrive_peer(unsigned long long *bar, int rank)
{
    const int own = cpu::here;
    cpu::enter_cta(rank);
    mbarrier_arrive(bar);
    cpu::enter_cta(own);
}
void mbarrier_wait(unsigned long long *bar, int parity)
{
    cpu::Mbarrier &b = cpu::mbarriers[bar];
    while (b.phase % 2 == parity) {
        for (const cpu::Box &box : b.boxes) {
            cpu::move_box(box, true, false);
            b.bytes -= cpu::bytes_of(*box.map);
        }
        b.boxes.clear();
        for (const cpu::Group &group : b.copies) {
            for (const cpu::Copy &c : group) cpu::land(c);
            --b.left;
        }
        b.copies.clear();
        mbarrier_complete(b);
        if (b.phase % 2 == parity) cpu::yield();
    }
}
namespace cpu {
static Box make_box(const void *smem, const unsigned long long *map, std::initializer_list<int> at, unsigned long long *bar)
{
    Box box = {read_map(map), {0}, (char *)smem, bar};
    std::copy(at.begin(), at.end(), box.at);
    return box;
}
void tma_load(void *smem, const unsigned long long *map, std::initializer_list<int> at, unsigned long long *bar)
{
    const Box box = make_box(smem, map, at, bar);
    move_box(box, true, true);
    mbarriers[bar].boxes.push_back(box);
}
void tma_multicast(void *smem, const unsigned long long *map, std::initializer_list<int> at, unsigned long long *bar, int peers)
{
    const int own = here;
    for (int rank = 0; peers >> rank; ++rank) {
        if (!(peers >> rank & 1)) continue;
        enter_cta(rank);
        tma_load(smem, map, at, bar);
    }
    enter_cta(own);
}
void tma_store(const void *smem, const unsigned long long *map, std::initializer_list<int> at)
{
    stores[threadIdx.x].back().push_back(make_box(smem, map, at, nullptr));
}
void commit_stores() { stores[threadIdx.x].emplace_back(); }
void wait_for_stores(int pending)
{
    auto &groups = stores[threadIdx.x];
    for (; groups.size() > (size_t)pending + 1; groups.pop_front()) {
        for (const Box &box : groups.front()) move_box(box, false, false);
    }
}
// ldmatrix and stmatrix: the lanes lay out their addresses and words, meet, and each serves itself; then they meet again.
static unsigned short *rows[WARPS][32];
static void exchange(void *row)
{
    rows[warp()][threadIdx.x % 32] = (unsigned short *)row;
    __syncwarp();
}
// element e of word k of this lane, in memory
static unsigned short &cell(int k, int e, bool trans)
{
    const int lane = threadIdx.x % 32, mine = lane >> 2, pair = (lane & 3) << 1 | e;
    return trans ? rows[warp()][8 * k + pair][mine] : rows[warp()][8 * k + mine][pair];
}
void load_matrices(unsigned *words, const void *row, int n, bool trans)
{
    exchange((void *)row);
    for (int k = 0; k < n; ++k) words[k] = cell(k, 0, trans) | (unsigned)cell(k, 1, trans) << 16;
    __syncwarp();
}
void store_matrices(const unsigned *words, void *row, int n, bool trans)
{
    exchange(row);
    for (int k = 0; k < n; ++k) cell(k, 0, trans) = words[k] & 0xffff, cell(k, 1, trans) = words[k] >> 16;
    __syncwarp();
}
static bool operator<(const Matrix &x, const Matrix &y)
{
    return std::memcmp(&x, &y, sizeof x) < 0;
}
static std::map<Matrix, uint64_t> matrix_numbers;
static std::vector<Matrix> matrices;
// Its number stands in the high bits: what a text adds to a descriptor moves the start, by 16 bytes each.
uint64_t number_of(const Matrix &m)
{
    const auto found = matrix_numbers.emplace(m, (uint64_t)matrices.size() << 24);
    if (found.second) matrices.push_back(m);
    return found.first->second;
}
Matrix matrix_of(uint64_t number) { return matrices[number]; }
static void meet_multipliers() { meet(multipliers[threadIdx.x / 128], 128); }
void start_product(const Product &p)
{
    meet_multipliers();
    Sum &s = sums[threadIdx.x][p.c];
    if (!s.flying++) s.real.assign((char *)p.c, (char *)p.c + p.bytes);
    memset(p.c, 0xA5, p.bytes);
    products[threadIdx.x].back().push_back(p);
}
void wait_for_products(int pending)
{
    const int first = threadIdx.x / 128 * 128, me = threadIdx.x;
    meet_multipliers();
    const size_t groups = products[me].size() - 1, done = groups > (size_t)pending ? groups - pending : 0;
    for (size_t g = 0; g < done; ++g) {
        for (size_t k = 0; k < products[me][g].size(); ++k) {
            std::vector<Product> all;
            for (int t = first; t < first + 128; ++t) all.push_back(products[t][g][k]);
            Sum &s = sums[me][products[me][g][k].c];
            all[me - first].land(all.data(), s.real.data());
            --s.flying;
        }
    }
    meet_multipliers();
    for (size_t g = 0; g < done; ++g) products[me].pop_front();
    for (auto &s : sums[me]) {
        if (!s.second.flying && !s.second.real.empty()) {
            memcpy(s.first, s.second.real.data(), s.second.real.size());
            s.second.real.clear();
        }
    }
}
void commit_products()
{
    meet_multipliers();
    products[threadIdx.x].emplace_back();
}
}  // namespace cpu
