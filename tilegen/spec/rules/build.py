"""TG3xx operations, TG4xx proofs that failed, TG5xx what the environment lacks."""

from __future__ import annotations

from tilegen.spec.rules.rule import Rule

_BUFFERS = (
    "buffers:\n"
    "  X: {scope: global, dtype: float32, shape: [64, 32]}\n"
    "  Y: {scope: global, dtype: float32, shape: [64, 32]}\n"
    "  s: {scope: shared, dtype: float32, shape: [32, 32]}\n"
    "  sT: {view: s, axes: [1, 0]}\n"
    "  t: {scope: shared, dtype: float32, shape: [32, 32]}\n"
    "  tT: {view: t, axes: [1, 0]}\n"
)
_IN = '  - copy: {scope: warp, src: "X[bx*32 : +32]", dst: s}\n'
_ASYNC = _IN.replace("dst: s", "dst: s, async: true")
_LOAD = '  - copy: {scope: warp, src: "X[bx*32 : +32]", dst: s, variant: tma, barrier: full}\n'
_FULL = "  - wait: {barrier: full}\n"
_STORE = '  - copy: {scope: warp, src: s, dst: "Y[bx*32 : +32]", variant: tma}\n  - wait: 0\n'
_OUT = '  - copy: {scope: warp, src: sT, dst: "Y[bx*32 : +32]"}\n'
_SYNC = "  - sync: warp\n"


_TWO_PASSES = (
    "buffers:\n"
    "  X: {{scope: global, dtype: float32, shape: [64, 32]}}\n"
    "  Y: {{scope: global, dtype: float32, shape: [64, 32]}}\n"
    "  w: {{scope: workspace, dtype: float32, shape: [64, 32]}}\n"
    "passes:\n"
    "  - name: first\n"
    "    threads: 32\n"
    "    buffers:\n"
    "      r: {{scope: register, dtype: float32, shape: [{rows}, 32], layout: auto}}\n"
    "    ops:\n"
    '      - copy: {{src: "X[0 : +{rows}]", dst: r}}\n'
    '      - copy: {{src: r, dst: "w[0 : +{rows}]"}}\n'
    "  - name: second\n"
    "    threads: 32\n"
    "    ops:\n"
    "      - copy: {{scope: cta, src: w, dst: Y}}\n"
)


def _kernel(*ops: str) -> str:
    return "grid: {bx: 2}\n" + _BUFFERS + "ops:\n" + "".join(ops)


_PERMUTE = (
    "buffers:\n"
    "  X: {{scope: global, dtype: float32, shape: [4, {n}]}}\n"
    '  Y: {{scope: global, dtype: float32, shape: [4, {n}], layout: "S[(4,{n}):(1,4)]"}}\n'
    "ops:\n"
    "  - permute_layout: {{scope: warp, src: X, dst: Y}}\n"
)
_OWNED = (
    "buffers:\n"
    "  X: {{scope: global, dtype: float32, shape: [32, 8]}}\n"
    "  Y: {{scope: global, dtype: float32, shape: [32, 8]}}\n"
    '  p: {{scope: register, dtype: float32, shape: [32, 8], layout: "S[(32,8):(1@laneid,1)]"}}\n'
    '  q: {{scope: register, dtype: float32, shape: [32, 8], layout: "{layout}"}}\n'
    "  r: {{scope: register, dtype: float32, shape: [32, 8], layout: auto}}\n"
    "ops:\n"
    "  - copy: {{scope: warp, src: X, dst: p}}\n"
    "  - copy: {{scope: warp, src: p, dst: r}}\n"
    "  - copy: {{scope: warp, src: r, dst: q}}\n"
    "  - copy: {{scope: warp, src: q, dst: Y}}\n"
)
_LONG = (
    "buffers:\n"
    "  X: {{scope: global, dtype: float32, shape: [1000000, 32]}}\n"
    "  Y: {{scope: global, dtype: float32, shape: [1000000, 32], partial: true}}\n"
    "ops:\n  - for: {{t: 1000000}}\n    do:\n"
    '      - copy: {{src: "X[t]", dst: "Y[t]", when: "{c}"}}\n'
)
_TWO_RESULTS = (
    "buffers:\n"
    "  X: {{scope: global, dtype: float32, shape: [4, 32]}}\n"
    "  Y: {{scope: global, dtype: float32, shape: [8, 32], partial: true}}\n"
    "ops:\n"
    "  - for: {{i: 4}}\n    do:\n"
    '      - elementwise: {{scope: warp, dst: {{a: "Y[i]", b: "Y[{begin}]"}}, expr: "a = x; b = x * x", '
    'with: {{x: "X[i]"}}}}\n'
)


def _scatter(promise: str) -> str:
    """Rows that go to places which a table names."""
    return (
        f'grid: {{bx: 8}}\nbuffers:\n  slots: {{scope: global, dtype: int32, shape: [8], values: "0 : 64"{promise}}}\n'
        "  X: {scope: global, dtype: float32, shape: [8, 32]}\n"
        "  Y: {scope: global, dtype: float32, shape: [64, 32], partial: true}\n"
        'ops:\n  - let: {slot: "slots[bx]"}\n  - copy: {src: "X[bx]", dst: "Y[slot]"}\n'
    )


_RIGHT = _kernel(_IN, _SYNC, _OUT)


def _ring(filled: str, read: str) -> str:
    """A warp fills stages by TMA, another copies them out."""
    return (
        "roles:\n  load: {threads: 32}\n  move: {threads: 32}\n"
        "barriers:\n  full: {slots: 2}\n  free: {slots: 2, open: true}\n"
        "buffers:\n"
        "  X: {scope: global, dtype: float32, shape: [8, 32]}\n  Y: {scope: global, dtype: float32, shape: [8, 32]}\n"
        "  s: {scope: shared, dtype: float32, shape: [2, 32]}\n"
        "ops:\n"
        "  - role: load\n    do:\n      - for: {i: 8}\n        do:\n"
        '          - wait: {barrier: "free[i % 2]"}\n'
        f'          - copy: {{src: "X[i]", dst: "s[{filled}]", variant: tma, barrier: "full[{filled}]"}}\n'
        "  - role: move\n    do:\n      - for: {i: 8}\n        do:\n"
        f'          - wait: {{barrier: "full[{read}]"}}\n          - copy: {{src: "s[{read}]", dst: "Y[i]"}}\n'
        '          - sync: warp\n          - arrive: {barrier: "free[i % 2]"}\n'
    )


BUILD_RULES = {
    "TG301": Rule(
        "no variant can carry out this op",
        "Each variant's reason is listed. Change what the nearest one asks for.",
        _PERMUTE.format(n=33),
        _PERMUTE.format(n=64),
    ),
    "TG302": Rule(
        "what is pinned cannot be had",
        "The pinned variant cannot carry out this op, or none can with a width, a tile or another pin as it is; the "
        "reason is given. Leave the field out to take the cheapest that can, or write the value that the hint names.",
        _kernel(_IN.replace("dst: s", "dst: s, variant: reg"), _SYNC, _OUT),
        _RIGHT,
    ),
    "TG303": Rule(
        "nothing to build",
        "A kernel without ops writes nothing. A spec may have none while it is written.",
        _kernel().replace("ops:", "ops: []"),
        _RIGHT,
    ),
    "TG304": Rule(
        "a commit or a wait, and no asynchronous copy or product",
        "Groups are of copies and of products by wgmma that say 'async: true'. Everything else is done when its "
        "threads go on. Where a kernel has both, commits and waits say so: 'commit: mma', 'wait: {cp_async: 1}', "
        "'wait: {tmem: 0}'. 'commit: {barrier: NAME}' is for products into tensor memory, in their role.",
        _kernel(_IN, "  - wait: 0\n", _SYNC, _OUT),
        _kernel(_ASYNC, "  - commit\n  - wait: 0\n", _SYNC, _OUT),
    ),
    "TG305": Rule(
        "an mbarrier whose phases differ",
        "Copies that follow one another and name one mbarrier fill one phase of it. Every phase is filled by as many "
        "threads: an mbarrier is made for one number of arrivals.",
        _kernel(
            _LOAD, _LOAD.replace("dst: s", "dst: t").replace("scope: warp, ", ""), _FULL, _SYNC, _LOAD, _FULL, _OUT
        ),
        _kernel(_LOAD, _FULL, _SYNC, _OUT),
    ),
    "TG306": Rule(
        "a phase that cannot be followed",
        "The phase that a wait is for is a closed form of loop variables: of a single mbarrier, the number of waits "
        "before it; of one of several, slot E % n, it is E / n, so E counts the waits.",
        _kernel(
            _LOAD.replace("full", "'full[0]'"),
            _LOAD.replace("full", "'full[1]'").replace("dst: s", "dst: t"),
            "  - for: {j: 2}\n    do:\n      - wait: {barrier: 'full[1 - j]'}\n",
            _SYNC,
            _OUT,
        ),
        _kernel(
            _LOAD.replace("full", "'full[0]'"),
            _LOAD.replace("full", "'full[1]'").replace("dst: s", "dst: t"),
            "  - for: {j: 2}\n    do:\n      - wait: {barrier: 'full[j]'}\n",
            _OUT,
        ),
    ),
    "TG307": Rule(
        "what the arch has not",
        "TMA and what orders stores before it came with sm_90.",
        "arch: sm_80\n" + _kernel(_IN, "  - sync: async\n", _SYNC, _OUT),
        _RIGHT,
    ),
    "TG308": Rule(
        "registers with two owners",
        "Ops that share a register tensor run on the threads that own it: a copy, a cast or an elementwise needs both "
        "sides owned alike. The message names what decided the layout, and the op that needs another.",
        _OWNED.format(layout="S[(8,4,8):(1,8@laneid,1@laneid)]"),
        _OWNED.format(layout="S[(32,8):(1@laneid,1)]"),
    ),
    "TG309": Rule(
        "registers without an owner",
        "With 'layout: auto' the owners follow from registers whose layout is known, or from the first op that takes "
        "the buffer from or to memory. Something must do one of these, or the layout is written.",
        "buffers:\n  r: {scope: register, dtype: float32, shape: [32, 4], layout: auto}\n"
        "ops:\n  - fill: {scope: warp, dst: r, value: 0}\n",
        "buffers:\n  r: {scope: register, dtype: float32, shape: [32, 4], layout: auto}\n"
        "  Y: {scope: global, dtype: float32, shape: [32, 4]}\n"
        "ops:\n  - fill: {scope: warp, dst: r, value: 0}\n  - copy: {scope: warp, src: r, dst: Y}\n",
    ),
    "TG310": Rule(
        "a buffer that leaves the bytes that it lies over",
        "A buffer with 'over' takes no more bytes than those that it lies over, from the first to the last of them.",
        _RIGHT.replace("buffers:\n", "buffers:\n  o: {scope: shared, dtype: float32, shape: [64, 64], over: [s]}\n"),
        _RIGHT.replace("buffers:\n", "buffers:\n  o: {scope: shared, dtype: float32, shape: [16, 64], over: [s]}\n"),
    ),
    "TG311": Rule(
        "CTAs that do not fit on one multiprocessor",
        "'ctas_per_sm: n' is a promise to the compiler, which then gives a thread so few registers that n CTAs find "
        "room; their shared memory must find it too, and their tensor memory.",
        "ctas_per_sm: 32\n" + _RIGHT,
        "ctas_per_sm: 8\n" + _RIGHT,
    ),
    "TG401": Rule("out of bounds", "An access leaves its memory for some CTA, trip or thread."),
    "TG402": Rule("misaligned", "A vector access does not start at a multiple of its width for every thread."),
    "TG403": Rule(
        "a race",
        "Two threads touch one byte, one of them writes, and nothing orders them. Insert the sync that the message "
        "prints.",
        _kernel(_IN, _OUT),
        _RIGHT,
    ),
    "TG404": Rule("read before written", "Memory is read that nothing has written before.", _kernel(_OUT), _RIGHT),
    "TG405": Rule(
        "two CTAs touch one byte",
        "CTAs are not ordered: each byte that one of them writes belongs to it, and no other may write or read it.",
    ),
    "TG406": Rule(
        "a sync that not all threads reach",
        "All threads of a sync's scope must reach it: its condition is equal in them. So it is with what a warp "
        "carries out together.",
    ),
    "TG407": Rule("registers indexed by a variable", "Registers have no addresses: unroll the loop."),
    "TG408": Rule(
        "one byte is written twice in one step",
        "Two lanes write it, or two results of one op: which of them is left there is not defined.",
        _TWO_RESULTS.format(begin="2*i"),
        _TWO_RESULTS.format(begin="4 + i"),
    ),
    "TG409": Rule("an index leaves int", "An address or index does not fit the type that it is computed in."),
    "TG410": Rule("a variable leaves its range", "A value contradicts what is known of its variable."),
    "TG411": Rule("the plan disagrees with the reference", "This is a bug of tilegen: please report the spec."),
    "TG412": Rule("a malformed plan", "This is a bug of tilegen: please report the spec."),
    "TG413": Rule("a deadlock", "Threads wait for each other, or for a barrier that nobody reaches."),
    "TG414": Rule("a range that could not be proved", "Neither ranges nor guards show that an access stays inside."),
    "TG415": Rule("an alignment that could not be proved", "Promise it, for example with 'multiple_of' on a param."),
    "TG416": Rule("a claim of the plan that could not be proved", "This is a bug of tilegen: please report the spec."),
    "TG417": Rule(
        "two CTAs own one element",
        "The boxes of the output that CTAs write overlap.",
        _kernel(_IN, _SYNC, _OUT.replace("bx*32", "0")),
        _RIGHT,
    ),
    "TG418": Rule(
        "the output is not covered",
        "Some elements of an array that is only written belong to no CTA: compare the grid with the shape. Where that "
        "is meant, the buffer says 'partial: true'. Of passes, one that writes the array is launched at every size, "
        "and before any that reads it.",
        _RIGHT.replace("grid: {bx: 2}", "grid: {bx: 1}"),
        _RIGHT.replace("grid: {bx: 2}", "grid: {bx: 1}").replace("Y: {", "Y: {partial: true, "),
    ),
    "TG419": Rule("who owns the output is not known", "The boxes that CTAs write are too many, or of split views."),
    "TG420": Rule(
        "the plan does not do what the spec means",
        "The plan ran in NumPy and wrote another value than the spec asks for, or another place. This is a bug of "
        "tilegen: please report the spec.",
    ),
    "TG421": Rule(
        "the kernel does not do what the spec means",
        "The kernel ran on the GPU and an array differs from the spec's meaning: the first element that does is named. "
        "This is a bug of tilegen: please report the spec.",
    ),
    "TG422": Rule(
        "an asynchronous copy is in the way",
        "What an asynchronous copy writes may be touched by nobody, and what it reads written by nobody, until the "
        "thread that started it has waited for its group: commit closes a group, 'wait: N' goes on when at most N are "
        "in flight. Other threads need a sync after the wait.",
        _kernel(_ASYNC, "  - commit\n", _SYNC, _OUT),
        _kernel(_ASYNC, "  - commit\n  - wait: 0\n", _SYNC, _OUT),
    ),
    "TG423": Rule(
        "an asynchronous copy that nobody waits for",
        "Every copy must have landed when the kernel ends: its shared memory may belong to another CTA by then.",
        _kernel(_ASYNC, _IN.replace("dst: s", "dst: t"), _SYNC, _OUT.replace("sT", "tT")),
        _kernel(_ASYNC, "  - commit\n  - wait: 0\n", _SYNC, _OUT),
    ),
    "TG424": Rule(
        "TMA reads what was not fenced",
        "Threads write through one proxy of shared memory and TMA reads through another: 'sync: async' makes what each "
        "thread wrote before visible to TMA. A sync after it says that all have done so.",
        _kernel(_IN, _SYNC, _STORE),
        _kernel(_IN, "  - sync: async\n", _SYNC, _STORE),
    ),
    "TG425": Rule("an mbarrier that is arrived at too often", "A phase has one number of arrivals, and < 2^20 bytes."),
    "TG426": Rule(
        "a proof of too many steps",
        "Kernels are proved by running some of their CTAs in NumPy. Of a long loop a few trips are enough where all "
        "that its variable has a hand in repeats or moves on by a constant; else every trip runs, within a budget.",
        _LONG.format(c="t * t % 7919 < 4000"),
        _LONG.format(c="t < 10"),
    ),
    "TG427": Rule(
        "a float is further off than its bound",
        "The spec's meaning says of each element how far right kernels may be from it: what every function may round, "
        "and sums in any order (`tilegen explain` lists the functions). This value is further off. This is a bug of "
        "tilegen: please report the spec.",
    ),
    "TG428": Rule(
        "the kernel is not the function that --against names",
        "The kernel does what the spec says, but an element is further from the function's value than rounding and the "
        "order of sums bring it, or no CTA writes it (nan says that none need): the spec means something else, or the "
        "function does. The function must be exact mathematics, float64 all along, nothing rounded to narrower types.",
    ),
    "TG429": Rule(
        "a workspace is read before it is written",
        "A pass reads a workspace, and no pass before it surely writes all of it. What a workspace holds before is "
        "nobody's: write every element in one pass before, launched under the same condition. Where no pass before "
        "writes it, a CTA may read what it wrote itself.",
        _TWO_PASSES.format(rows=32),
        _TWO_PASSES.format(rows=64),
    ),
    "TG430": Rule(
        "a sync that orders nothing",
        "Every access before it and every access after it is ordered without it, so it only costs time. A warning.",
        _kernel(_IN, _SYNC, _SYNC, _OUT),
        _RIGHT,
    ),
    "TG433": Rule(
        "phases out of order",
        "The uses of 'NAME[E % n]' in one role are for phase after phase: E counts up by one from use to use, from 0. "
        "Where loops nest, E counts the trips of all of them.",
        _ring("(i + 4) % 2", "(i + 4) % 2"),
        _ring("i % 2", "i % 2"),
    ),
    "TG434": Rule(
        "a phase that may be another one",
        "A wait tells phases apart only by their parity, and an arrival is for whichever phase is not complete. So who "
        "waits for a phase, or arrives for it, has waited before for what completes the one before it.",
        _ring("i % 2", "i % 2").replace('          - wait: {barrier: "free[i % 2]"}\n', ""),
        _ring("i % 2", "i % 2"),
    ),
    "TG435": Rule(
        "a CTA that may have ended",
        "What arrives at an mbarrier of another CTA of the cluster must find it running: all of its threads meet the "
        "others before they end, 'sync: cluster' as the last statement.",
    ),
    "TG438": Rule(
        "registers that a product in flight has",
        "From a wgmma to the wait for its group its accumulator belongs to nobody else: other threads' statements may "
        "neither read nor write it, nor its A where that is in registers. 'commit: mma' closes a group, "
        "'wait: {mma: N}' goes on when at most N are in flight.",
    ),
    "TG439": Rule(
        "registers of a product without a fence",
        "A fence stands between what threads do with registers and a wgmma that takes them. tilegen places the fences: "
        "this is a bug of it, please report the spec.",
    ),
    "TG440": Rule(
        "arrays touched while the kernel before still runs",
        "With 'overlap: previous' the kernels before may still write the arrays that this one reads, and read those "
        "that it writes. Every access to an array is ordered after a 'wait: previous': by its own thread, or by one "
        "that it has met, or waited for at an mbarrier, since.",
        "overlap: previous\n" + _kernel(_IN, "  - wait: previous\n", _SYNC, _OUT),
        "overlap: previous\n" + _kernel("  - wait: previous\n", _IN, _SYNC, _OUT),
    ),
    "TG441": Rule(
        "places that may be the same",
        "An array is written at places that a table names. Two CTAs write different elements only where no two of the "
        "table's elements are equal, which 'distinct: true' promises, and no place lies within the box of another.",
        _scatter(""),
        _scatter(", distinct: true"),
    ),
    "TG491": Rule("the kernel failed on the GPU", "The GPU reported an error while the kernel ran."),
    "TG492": Rule("the GPU disagrees with the reference", "The first element that differs is named."),
    "TG493": Rule(
        "ptxas does not keep to what the kernel is written for",
        "A warning of `build --compile` and `bench`: the kernel is right, and slower than it could be. Registers spill "
        "to memory, products in flight are serialized (C7510, C7511, C7514, C7515), or a role's registers are ignored "
        "(C7507, C7508, C7602). The place is that of a product, of a role, or of the op that holds the most registers: "
        "ptxas itself names the kernel alone. A product whose registers are touched under a branch or beside another "
        "in flight is serialized. A role needs as many registers as its accumulators have, and some 26 more.",
    ),
    "TG494": Rule(
        "the compiled PTX does what PTX forbids",
        "`verify --device ptx` runs what the compiler makes of the kernel on a machine in NumPy, which follows the PTX "
        "ISA: a race, a missing fence, a wait for another phase, an access out of bounds. The line of the PTX text is "
        "named, and the op that it belongs to.",
    ),
    "TG501": Rule(
        "it cannot be compiled here", "No compiler for this arch was found. `tilegen doctor` says what is missing."
    ),
    "TG502": Rule("no GPU", "This needs an NVIDIA GPU and CuPy. `tilegen doctor` says what is missing."),
    "TG504": Rule("no driver for TMA", "TMA's descriptors are encoded by the NVIDIA driver, of CUDA 12 or later."),
    "TG505": Rule(
        "a process that is gone, or memory that has run out",
        "Of several specs each is worked on in a process of its own, and one more runs the GPU. The system ends a "
        "process where memory runs out. The other specs go on. '-j N' has N kernels in memory at a time.",
    ),
    "TG503": Rule("a GPU of another arch", "Code for the spec's arch does not run on this GPU: use --arch."),
    "TG506": Rule("no PyTorch", "`tilegen.torch_op` registers an operator with PyTorch, 2.7 or later: install it."),
    "TG507": Rule("no dask.distributed", "`tilegen tune` runs its processes by it: `pip install 'tilegen[tune]'`."),
}


# ---------------------------------------------------------------- TG7xx
