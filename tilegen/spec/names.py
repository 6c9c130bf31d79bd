"""Names: which a user may give, and what a name means in an expression."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from tilegen.dtypes import DTYPES
from tilegen.errors import Flaw, Mark
from tilegen.index import Index, Var, bound, variables
from tilegen.near_words import find_near, suggest
from tilegen.scopes import CLUSTER_AXES, COUNT_AXES, CTA_AXES, SCOPES, THREAD_AXES, thread_variables
from tilegen.spec.findings import Flawed, Passage, shorten

MAX_NAME = 64
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z", re.ASCII)

_CPP = frozenset(
    """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t class
    compl concept const consteval constexpr constinit const_cast continue co_await co_return co_yield decltype
    default delete do double dynamic_cast else enum explicit export extern false final float for friend goto if
    import inline int long main module mutable namespace new noexcept not not_eq nullptr operator or or_eq
    override private protected public register reinterpret_cast requires restrict return short signed sizeof
    static static_assert static_cast struct switch template this thread_local throw true try typedef typeid
    typename typeof union unsigned using virtual void volatile wchar_t while xor xor_eq NULL INT_MAX assert
    clock clock64 malloc memcpy memset printf size_t ptrdiff_t std nvcuda cuda int8_t int16_t int32_t
    int64_t uint8_t uint16_t uint32_t uint64_t uintptr_t intptr_t
    """.split()  # noqa: SIM905 - a list of words reads better
)
_CUDA = frozenset(
    """
    threadIdx blockIdx blockDim gridDim warpSize clusterIdx dim3 half half2 uint ushort uchar ulong cudaError_t
    cudaStream_t char1 char2 char3 char4 uchar1 uchar2 uchar3 uchar4 short1 short2 short3 short4 ushort1 ushort2
    ushort3 ushort4 int1 int2 int3 int4 uint1 uint2 uint3 uint4 long1 long2 long3 long4 ulong1 ulong2 ulong3
    ulong4 longlong1 longlong2 longlong3 longlong4 ulonglong1 ulonglong2 ulonglong3 ulonglong4 float1 float2
    float3 float4 double1 double2 double3 double4
    """.split()  # noqa: SIM905 - a list of words reads better
)
_LANGUAGE = ("inf", "resident", "ceil", "and", "or", "not", "true", "false", "min", "max", "where")


def reserved_reason(name: str) -> str:
    """Why a user may not give this name; empty if it is free.

    >>> reserved_reason("threadIdx"), reserved_reason("tile")
    ('a name of CUDA', '')
    """
    if name in THREAD_AXES or name in CTA_AXES or name in CLUSTER_AXES or name in COUNT_AXES:
        return "the name of an axis"
    if name in _CPP or name in TYPES:
        return "a name of C++"
    if name in _CUDA or is_of_cuda(name):
        return "a name of CUDA"
    if is_macro(name):
        return "a macro of the C headers"
    if name in PRELUDE or _OF_MANY.match(name):
        return "a function that generated kernels define"
    if name in _LANGUAGE:
        return "a word of the expression language"
    if name in DTYPES or any(name == d.c for d in DTYPES.values()):
        return "the name of a type"
    if "__" in name or re.match("_[A-Z]", name):
        return "reserved by C++ (a double underscore, or an underscore before a capital)"
    return ""


def kernel_reason(name: str) -> str:
    """Why a kernel may not have this name, as a C identifier; empty if it may.

    >>> kernel_reason("int"), kernel_reason("sqrt"), kernel_reason("tile")
    ('a name of C++', 'a function of the C library', '')
    """
    return reserved_reason(name) or ("a function of the C library" if name in FUNCTIONS else "")


def mend_name(text: str, reason: Callable[[str], str]) -> str:
    """The nearest name that a user may give, for a text that is none; ``reason(name)``: why a name may not be given.

    >>> mend_name("my-kernel", kernel_reason), mend_name("2nd", kernel_reason), mend_name("sqrt", kernel_reason)
    ('my_kernel', 'k_2nd', 'k_sqrt')
    """
    mended = "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in text[: MAX_NAME - 2])
    if not mended or mended[0].isdigit() or reason(mended):
        mended = f"k_{mended.lstrip('_').replace('__', '_')}"
    return mended


def check_name(passage: Passage, what: str) -> str:
    """The name in ``passage`` if a user may give it; raises TG107 otherwise. ``what`` is what it names."""
    name = passage.text
    reason_of = kernel_reason if what == "kernel" else reserved_reason
    if not _IDENTIFIER.match(name):
        mended = mend_name(name, reason_of)
        hint = f"write '{shorten(mended)}'" if _IDENTIFIER.match(mended) and not reason_of(mended) else ""
        hint = hint or "use a-z, A-Z, 0-9 and _"
        raise passage.fault("TG107", f"{shorten(name)!r} is no name for a {what}: not a C identifier", hint=hint)
    if len(name) > MAX_NAME:
        raise passage.fault("TG107", f"the name of a {what} has at most {MAX_NAME} characters, this one {len(name)}")
    if reason := reason_of(name):
        raise passage.fault(
            "TG107", f"'{name}' is no name for a {what}: it is {reason}", hint=f"for example '{name.strip('_')}_'"
        )
    return name


@dataclass
class Register:
    """Who has which name: kernel, params, buffers, loop variables and lets share one space."""

    owners: dict[str, tuple[str, Mark]] = field(default_factory=dict)
    unread: set[str] = field(default_factory=set)  # words of statements that were reported: they may declare barriers

    def claim(self, passage: Passage, what: str) -> str:
        """A checked, new name; raises TG107 or TG108."""
        name = check_name(passage, what)
        mark = passage.locate(0, len(name))
        if name in self.owners:
            other, place = self.owners[name]
            raise Flawed("TG108", f"'{name}' already names a {other}", mark, f"first on {place.spot}")
        self.owners[name] = (what, mark)
        return name

    def release(self, name: str) -> None:
        """The end of a loop, or of a list, frees its names."""
        self.owners.pop(name, None)


FORBIDDEN = "TG113"  # a name that exists, but not where it stands


@dataclass(frozen=True)
class Names:
    """What names mean in an expression. ``forbidden`` exist, but not here (why, and what to do).

    ``broken`` were reported before.

    ``threaded``: names that a spec gives to values which differ between threads, each with the axes that it depends on.
    ``beside``: names that are no integers and may stand here all the same.
    """

    values: Mapping[str, Index]
    forbidden: Mapping[str, Flaw] = field(default_factory=dict)
    broken: frozenset[str] = frozenset()
    threaded: Mapping[str, tuple[Index, frozenset[str]]] = field(default_factory=dict)
    beside: tuple[str, ...] = ()

    def with_values(self, more: Mapping[str, Index]) -> Names:
        """These names and more."""
        left = {k: v for k, v in self.forbidden.items() if k not in more}
        return replace(self, values={**self.values, **more}, forbidden=left)

    def with_broken(self, names: Iterable[str]) -> Names:
        """Names whose own fault was reported: no second error where they are used."""
        return replace(self, broken=self.broken | frozenset(names))

    def with_let(self, name: str, value: Index, axes: frozenset[str]) -> Names:
        """One more name; where it depends on thread axes it may stand wherever those may."""
        if not axes:
            return self.with_values({name: value})
        return replace(self, threaded={**self.threaded, name: (value, axes)})

    def over(self, axes: Iterable[str]) -> Names:
        """These names where threads have these axes for names too."""
        known = set(axes)
        return self.with_values({n: x for n, (x, own) in self.threaded.items() if own <= known})

    def axes_of(self, x: Index) -> frozenset[str]:
        """The thread axes that an expression depends on, through names too."""
        named = {v.name for v in variables(x)}
        own = (axes for name, (_, axes) in self.threaded.items() if name in named)
        return frozenset(named & set(THREAD_AXES)).union(*own)

    def forbid(self, names: Iterable[str], reason: str, hint: Callable[[str], str] = lambda name: "") -> Names:
        """Names that exist, but not here. In ``reason``, {name} stands for the name; ``hint`` says what to do."""
        more = {n: Flaw(FORBIDDEN, reason.format(name=n), hint=hint(n)) for n in names if n not in self.values}
        return replace(self, forbidden={**self.forbidden, **more})

    def advise(self, names: Iterable[str], hint: Callable[[str], str]) -> Names:
        """What to do where one of these is not known here, if something is to be done already."""
        flaws = {n: self.forbidden[n] for n in names if n in self.forbidden}
        more = {n: replace(flaw, hint=hint(n)) for n, flaw in flaws.items() if flaw.hint}
        return replace(self, forbidden={**self.forbidden, **more})

    def find(self, name: str, passage: Passage, start: int) -> Index:
        """The value of a name that stands at ``start`` of ``passage``; raises TG105 or TG113."""
        end = start + len(name)
        if name in self.values:
            return self.values[name]
        if name in self.broken:
            raise Flawed()
        if name in self.threaded:
            axes = ", ".join(a for a in THREAD_AXES if a in self.threaded[name][1])
            message = f"'{name}' depends on {axes}, which may not stand here"
            raise passage.fault("TG113", message, start, end)
        if name in self.forbidden:
            flaw = self.forbidden[name]
            raise passage.fault(flaw.code, flaw.message, start, end, flaw.hint)
        raise passage.fault("TG105", f"unknown name '{shorten(name)}'", start, end, self.suggest(name))

    def suggest(self, name: str) -> str:
        """What to write instead of an unknown name."""
        if name in ("yes", "on", "no", "off"):
            return "write true or false"
        near = find_near(name, [*self.beside, *self.values, *self.threaded])
        if near:
            return f"did you mean '{near}'?"
        integers = [n for n in self.values if n not in CLUSTER_AXES]
        most = suggest(name, dict.fromkeys([*self.beside, *integers])) or suggest(name, self.beside)
        return most or "declare it in 'params'"


def instance_variables(threads: int) -> dict[str, Var]:
    """The axes that number threads, as variables of their own.

    >>> instance_variables(256)["warpid"]
    Var(name='warpid', bound=8, step=1, least=0)
    """
    return {name: Var(name, bound(value)) for name, value in thread_variables(threads).items()}


def names_in_scope(outer: Names, scope: str, threads: int) -> Names:
    """The names that an op of a scope may use: its instances' axes are added, others are not uniform over it."""
    axes = instance_variables(threads)
    here = outer.with_values({name: axes[name] for name in SCOPES[scope].axes}).over(SCOPES[scope].axes)
    reason = f"'{{name}}' differs between the threads of {SCOPES[scope].one}, which run this together"
    return here.forbid(THREAD_AXES, reason, _say_scope)


def _say_scope(axis: str) -> str:
    """What to do about an axis that numbers threads in the region of an op."""
    scope = scope_of_axis(axis)
    return f"name the region of all of them, or give the op 'scope: {scope}'" if scope else ""


def scope_of_axis(axis: str) -> str:
    """The widest scope whose ops know an axis that numbers threads; "" if none does."""
    return next((name for name in reversed(SCOPES) if axis in SCOPES[name].axes), "")


# ---------------------------------------------------------------- names that the headers of CUDA and C define
_MATH = """
    acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh cospi cyl_bessel_i0 cyl_bessel_i1 drem erf
    erfc erfcinv erfcx erfinv exp exp10 exp2 expm1 fabs fdim finite floor fma fmax fmin fmod frexp gamma hypot
    ilogb isinf isnan j0 j1 jn ldexp lgamma llrint llround log log10 log1p log2 logb lrint lround modf nan
    nearbyint nextafter nexttoward norm norm3d norm4d normcdf normcdfinv pow pow10 remainder remquo rcbrt rhypot
    rint rnorm rnorm3d rnorm4d round rsqrt scalb scalbln scalbn signbit significand sin sincos sincospi sinh sinpi
    sqrt tan tanh tanpi tgamma trunc y0 y1 yn
""".split()  # noqa: SIM905 - a list of words reads better
_LIBRARY = """
    a64l abort abs aligned_alloc alloca asctime atexit atof atoi atol atoll basename bcmp bcopy brev bsearch bzero
    calloc clearenv clock_nanosleep clz ctime difftime div drand48 ecvt erand48 exit explicit_bzero fclose fcvt
    fflush ffs ffsl ffsll fgetc fgets fopen fprintf fputc fputs fread fscanf fseek ftell fwrite gcvt getc getchar
    getdate getdelim getenv getline getloadavg getpt gets getsubopt getw gmtime grantpt index initstate isfinite
    isnormal jrand48 l64a labs lcong48 ldiv llabs lldiv localtime lrand48 max mblen mbstowcs mbtowc memccpy memchr
    memcmp memfrombits memmem memmove mempcpy memrchr min mkdtemp mkostemp mkstemp mktemp mktime mrand48 mul24
    mul64hi mulhi nanosleep nrand48 on_exit perror popc posix_memalign pselect ptsname putc putchar putenv puts
    putw qecvt qfcvt qsort quick_exit rand random rawmemchr realloc reallocarray realpath remove rename rewind
    rindex rpmatch saturate scanf secure_getenv seed48 select setenv setstate sigabbrev_np snprintf sprintf srand
    srand48 srandom sscanf stpcpy stpncpy strcasecmp strcasestr strcat strchr strchrnul strcmp strcoll strcpy
    strcspn strdup strerror strfry strftime strlcat strlcpy strlen strncasecmp strncat strncmp strncpy strndup
    strnlen strpbrk strptime strrchr strsep strsignal strspn strstr strtod strtof strtok strtol strtold strtoll
    strtoq strtoul strtoull strtouq strverscmp strxfrm swab system time timegm timelocal tmpfile tmpnam tzset umax
    umin umul24 umulhi ungetc unlockpt unsetenv valloc vfprintf vprintf vsnprintf vsprintf wcstombs wctomb llmax
    llmin ullmax ullmin adjtimex clone setns sched_yield sched_getcpu unshare getcpu timer_create timer_delete
    dysize stime
""".split()  # noqa: SIM905
_TYPES = """
    FILE blkcnt_t blksize_t caddr_t clock_t clockid_t daddr_t dev_t div_t fd_mask fd_set float_t double_t fpos_t
    fsid_t gid_t id_t ino_t key_t ldiv_t lldiv_t locale_t loff_t max_align_t mode_t nlink_t nullptr_t off_t pid_t
    pthread_t quad_t register_t sigset_t ssize_t suseconds_t time_t timer_t timespec timeval itimerspec u_char
    u_int u_long u_quad_t u_short uid_t uint ulong useconds_t ushort va_list TensorMap
""".split()  # noqa: SIM905
_MACRO = re.compile(
    r"""(unix|linux|errno|EDOM|EILSEQ|ERANGE|stdin|stdout|stderr|offsetof|assert|alloca|strdupa|strndupa|isascii|toascii|issubnormal
    |NULL|NAN|INFINITY|EOF|BUFSIZ|MAXFLOAT|NZERO|NFDBITS|NDEBUG|SNAN[A-Z0-9]*
    |WIF[A-Z]+|WEXIT[A-Z]+|WSTOP[A-Z]+|WUNTRACED|WTERMSIG|WNOWAIT|WNOHANG|WCONTINUED|DELAYTIMER_MAX
    |(be|le)(16|32|64)toh|hto(be|le)(16|32|64)|L_ctermid|L_cuserid|L_tmpnam
    |(M|STA|FP|ADJ|MOD|CLOCK|CLOCKS|HUGE|NL|U?U?L?LONG|SEEK|FD|U?S?CHAR|BC|XATTR|RENAME|PTHREAD|L|U?SHRT|U?INT|MB|MAX|MATH
    |EXIT|BOOL|WORD|TTY|TMP|TIME|TIMER|SSIZE|SEM|RTSIG|RE|RAND|P|PIPE|PDP|PATH|NGROUPS|NAME|MQ|LOGIN|LITTLE|LINE|IOV|HOST
    |FOPEN|FILENAME|EXPR|COLL|CHARCLASS|BYTE|BIG|AIO|FLT|DBL|LDBL)_[A-Z0-9_]+(f|l|f32|f32x|f64|f64x)?)\Z""",
    re.VERBOSE,
)
_CUDA_NAME = re.compile(r"(cuda[A-Z_]|CUDA|CU_|CU[a-z]|nv[A-Z]|tex[123]D|surf[123]D|atomic[A-Z]|make_[a-z]+[1-4]\Z)")
FUNCTIONS = frozenset(_LIBRARY) | {name + suffix for name in _MATH for suffix in ("", "f", "l")}
TYPES = frozenset(_TYPES)
PRELUDE = frozenset(
    """
    launch_dependents wait_previous
    sync_warpgroup sync_role sync_cluster cp_async_4 cp_async_8 cp_async_16 cp_async_4_or_zero cp_async_8_or_zero
    cp_async_16_or_zero cp_async_commit cp_async_wait cp_async_arrive cluster_ctaid_x cluster_ctaid_y
    cluster_ctaid_z fence_async
    registers_down registers_up mbarrier_init mbarrier_arrive mbarrier_expect mbarrier_wait fence_mbarrier_init
    mbarrier_arrive_peer mbarrier_arrive_peer_released mbarrier_wait_cluster
    tma_multicast_1d tma_multicast_2d tma_multicast_3d tma_multicast_4d tma_multicast_5d
    tma_load_1d tma_load_2d tma_load_3d tma_load_4d
    tma_load_5d tma_store_1d tma_store_2d tma_store_3d tma_store_4d tma_store_5d tma_commit tma_wait
    half_to_float float_to_half double_to_half bfloat16_to_float float_to_bfloat16
    e4m3_to_float float_to_e4m3 e5m2_to_float float_to_e5m2 float_to_e4m3_saturated float_to_e5m2_saturated
    hidden_zero negate_int min_int max_int
    exp2_approx floor_div floor_mod shift_left shift_right
    load_stream_1 load_stream_2 load_stream_4 load_stream_8 load_stream_16
    load_stream_after_1 load_stream_after_2 load_stream_after_4 load_stream_after_8 load_stream_after_16
    store_stream_1 store_stream_2 store_stream_4 store_stream_8 store_stream_16
    ldmatrix_x1 ldmatrix_x2 ldmatrix_x4 ldmatrix_x1_trans ldmatrix_x2_trans ldmatrix_x4_trans
    stmatrix_x1 stmatrix_x2 stmatrix_x4 stmatrix_x1_trans stmatrix_x2_trans stmatrix_x4_trans
    round_to_tf32 mma_m16n8k16_f32_f16_f16_f32 mma_m16n8k16_f16_f16_f16_f16 mma_m16n8k16_f32_bf16_bf16_f32
    mma_m16n8k8_f32_f16_f16_f32 mma_m16n8k8_f16_f16_f16_f16 mma_m16n8k8_f32_bf16_bf16_f32
    mma_m16n8k8_f32_tf32_tf32_f32 mma_m16n8k4_f32_tf32_tf32_f32 mma_m16n8k32_s32_s8_s8_s32
    mma_m16n8k32_s32_s8_u8_s32 mma_m16n8k32_s32_u8_s8_s32 mma_m16n8k32_s32_u8_u8_s32 mma_m16n8k32_f32_e4m3_e4m3_f32
    mma_m16n8k32_f32_e4m3_e5m2_f32 mma_m16n8k32_f32_e5m2_e4m3_f32 mma_m16n8k32_f32_e5m2_e5m2_f32
    mma_m8n8k4_f64_f64_f64_f64 mma_m16n8k4_f64_f64_f64_f64 mma_m16n8k8_f64_f64_f64_f64 mma_m16n8k16_f64_f64_f64_f64
    wgmma_fence wgmma_commit wgmma_wait keep_registers matrix_descriptor
    tmem_load_1 tmem_load_2 tmem_load_4 tmem_load_8 tmem_load_16 tmem_load_32 tmem_load_64 tmem_load_128
    tmem_store_1 tmem_store_2 tmem_store_4 tmem_store_8 tmem_store_16 tmem_store_32 tmem_store_64 tmem_store_128
    is_elected tmem_fence_before tmem_fence_after tmem_wait_load tmem_wait_store tcgen05_descriptor
    stamp_clock stamp_place stamp_begin stamp_end
    """.split()  # noqa: SIM905
)
# One for each N and each way in which a and b lie; one for each type of elements, and so many; one for each two types;
# one for one CTA, and one for a pair.
_OF_MANY = re.compile(
    r"(wgmma_m64n\d+k\d+_\w+|red_(global|shared)_\w+|tma_reduce_[a-z]+_[1-5]d|keep_register|(u?int|float|double)_(cut_)?to_u?int\d+"
    r"|tmem_(alloc|alloc_done|free)(_pair)?|tcgen05_(mma|cp|commit)(_\w+)?|tma_load_[1-5]d_pair)\Z"
)


def is_macro(name: str) -> bool:
    """Whether a header defines a macro of this name, or may: it would be replaced wherever it stands.

    >>> is_macro("EOF"), is_macro("M_PI"), is_macro("M_tile"), is_macro("M")
    (True, True, False, False)
    """
    return _MACRO.match(name) is not None


def is_of_cuda(name: str) -> bool:
    """Whether a name begins as those of the CUDA runtime do.

    >>> is_of_cuda("cudaMalloc"), is_of_cuda("cudagraph")
    (True, False)
    """
    return _CUDA_NAME.match(name) is not None
