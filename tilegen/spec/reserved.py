"""Names that the headers of CUDA and C define, which nvcc includes before any kernel: counted with nvcc 13."""

from __future__ import annotations

import re

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
    pthread_t quad_t register_t sigset_t ssize_t suseconds_t time_t timer_t tm timespec timeval itimerspec u_char
    u_int u_long u_quad_t u_short uid_t uint ulong useconds_t ushort va_list TensorMap
""".split()  # noqa: SIM905
_MACRO = re.compile(
    r"""(unix|linux|stdin|stdout|stderr|offsetof|assert|alloca|strdupa|strndupa|isascii|toascii|issubnormal
    |NULL|NAN|INFINITY|EOF|BUFSIZ|MAXFLOAT|NZERO|NFDBITS|NDEBUG|SNAN[A-Z0-9]*
    |WIF[A-Z]+|WEXIT[A-Z]+|WSTOP[A-Z]+|WUNTRACED|WTERMSIG|WNOWAIT|WNOHANG|WCONTINUED|DELAYTIMER_MAX
    |(be|le)(16|32|64)toh|hto(be|le)(16|32|64)|L_ctermid|L_cuserid|L_tmpnam
    |(M|STA|FP|ADJ|MOD|CLOCK|CLOCKS|HUGE|NL|U?U?L?LONG|SEEK|FD|U?S?CHAR|BC|XATTR|RENAME|PTHREAD|L|U?SHRT|U?INT|MB|MAX|MATH
    |EXIT|BOOL|WORD|TTY|TMP|TIME|TIMER|SSIZE|SEM|RTSIG|RE|RAND|P|PIPE|PDP|PATH|NGROUPS|NAME|MQ|LOGIN|LITTLE|LINE|IOV|HOST
    |FOPEN|FILENAME|EXPR|COLL|CHARCLASS|BYTE|BIG|AIO|FLT|DBL|LDBL)_[A-Z0-9_]+(f|l|f32|f32x|f64|f64x)?)\Z""",
    re.VERBOSE,
)
_CUDA = re.compile(r"(cuda[A-Z_]|CUDA|CU_|CU[a-z]|nv[A-Z]|tex[123]D|surf[123]D|atomic[A-Z]|make_[a-z]+[1-4]\Z)")
FUNCTIONS = frozenset(_LIBRARY) | {name + suffix for name in _MATH for suffix in ("", "f", "l")}
TYPES = frozenset(_TYPES)
PRELUDE = frozenset(
    """
    sync_warpgroup sync_role sync_cluster cp_async_4 cp_async_8 cp_async_16 cp_async_4_or_zero cp_async_8_or_zero
    cp_async_16_or_zero cp_async_commit cp_async_wait cluster_ctaid_x cluster_ctaid_y cluster_ctaid_z fence_async
    mbarrier_init mbarrier_arrive mbarrier_expect mbarrier_wait tma_load_1d tma_load_2d tma_load_3d tma_load_4d
    tma_load_5d tma_store_1d tma_store_2d tma_store_3d tma_store_4d tma_store_5d tma_commit tma_wait
    half_to_float float_to_half double_to_half bfloat16_to_float float_to_bfloat16
    e4m3_to_float float_to_e4m3 e5m2_to_float float_to_e5m2
    load_stream_1 load_stream_2 load_stream_4 load_stream_8 load_stream_16
    store_stream_1 store_stream_2 store_stream_4 store_stream_8 store_stream_16
    ldmatrix_x1 ldmatrix_x2 ldmatrix_x4 ldmatrix_x1_trans ldmatrix_x2_trans ldmatrix_x4_trans
    stmatrix_x1 stmatrix_x2 stmatrix_x4 stmatrix_x1_trans stmatrix_x2_trans stmatrix_x4_trans
    """.split()  # noqa: SIM905
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
    return _CUDA.match(name) is not None
