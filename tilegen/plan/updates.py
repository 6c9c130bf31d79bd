"""Atomic updates of memory as the archs have them: of which elements, by which function, how many at once.

Source: PTX ISA, ``red``: its types, "Reduction operation with vector type", and its target notes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tilegen.arithmetic import UPDATES
from tilegen.spaces import GLOBAL

VECTORS = "red_vectors"  # of an arch: several elements of global memory by one instruction
OF_BFLOAT16 = "red_bf16"  # of an arch
_BITS = ("and", "or", "xor")


@dataclass(frozen=True)
class UpdateForm:
    """One instruction: its text behind ``red``, and the registers that it takes.

    ``elems`` elements are ``count`` registers of C's type ``word``, of the class ``mark`` in inline PTX. ``feature``:
    what an arch must have.
    """

    text: str
    elems: int
    count: int
    word: str
    mark: str
    feature: str = ""

    @property
    def name(self) -> str:
        """What tells it from others, as a part of a name.

        >>> find_updates("add", "bfloat16", "global")[-1].name
        'add_v4_bf16x2'
        """
        return self.text.replace(".noftz", "").replace(".", "_")


_WORDS = {"int32": ("unsigned", "r"), "uint32": ("unsigned", "r"), "int64": ("unsigned long long", "l"),
          "uint64": ("unsigned long long", "l")}  # fmt: skip
_SIGNED = {"int32": "s32", "uint32": "u32", "int64": "s64", "uint64": "u64"}
_BITS_OF = {"int32": "b32", "uint32": "b32", "int64": "b64", "uint64": "b64"}


def find_updates(function: str, dtype: str, state: str) -> tuple[UpdateForm, ...]:
    """The instructions that update elements of a dtype in a state space, those of few elements first; () for none.

    >>> [form.text for form in find_updates("add", "float16", "global")]
    ['add.noftz.f16', 'add.noftz.f16x2', 'add.noftz.v2.f16x2', 'add.noftz.v4.f16x2']
    >>> [form.text for form in find_updates("add", "int64", "shared")], find_updates("max", "float32", "global")
    (['add.u64'], ())
    """
    if function not in UPDATES:
        raise ValueError(f"atomic updates are {', '.join(UPDATES)}, not {function}")
    if dtype in _WORDS:
        word, mark = _WORDS[dtype]
        type_ = _BITS_OF[dtype] if function in _BITS else _SIGNED[dtype]
        type_ = "u64" if (function, dtype) == ("add", "int64") else type_  # the same bits: PTX has no s64 here
        return (UpdateForm(f"{function}.{type_}", 1, 1, word, mark),)
    if function != "add":
        return ()
    in_global = state == GLOBAL.state
    if dtype == "float32":
        vectors = (UpdateForm(f"add.v{n}.f32", n, n, "float", "f", VECTORS) for n in (2, 4))
        return (UpdateForm("add.f32", 1, 1, "float", "f"), *(vectors if in_global else ()))
    if dtype == "float64":
        return (UpdateForm("add.f64", 1, 1, "double", "d"),)
    if dtype in ("float16", "bfloat16"):
        short, feature = ("f16", "") if dtype == "float16" else ("bf16", OF_BFLOAT16)
        vectors = (UpdateForm(f"add.noftz.v{n}.{short}x2", 2 * n, n, "unsigned", "r", VECTORS) for n in (2, 4))
        return (
            UpdateForm(f"add.noftz.{short}", 1, 1, "unsigned short", "h", feature),
            UpdateForm(f"add.noftz.{short}x2", 2, 1, "unsigned", "r", feature),
            *(vectors if in_global else ()),
        )  # fmt: skip
    return ()


def list_updates(function: str, dtype: str, state: str, features: Iterable[str]) -> Mapping[int, UpdateForm]:
    """The instructions that an arch of these features has, by how many elements they update.

    >>> [sorted(list_updates("add", dtype, "global", {"red_vectors"})) for dtype in ("float32", "int32")]
    [[1, 2, 4], [1]]
    """
    known = frozenset(features)
    forms = find_updates(function, dtype, state)
    if any(form.elems == 1 and form.feature and form.feature not in known for form in forms):
        return {}
    return {form.elems: form for form in forms if not form.feature or form.feature in known}


def find_box_type(function: str, dtype: str) -> str:
    """The element type of a TMA descriptor for an update of elements of a dtype; "" where TMA has none.

    Source: PTX ISA, ``cp.reduce.async.bulk.tensor``, "valid combinations of .redOp and element type". Bits are those
    of unsigned integers; so are sums of int64. Of 16-bit floats min and max are left out, as threads have none.

    >>> find_box_type("add", "bfloat16"), find_box_type("add", "int64"), find_box_type("add", "float64")
    ('bfloat16', 'uint64', '')
    """
    if dtype in _WORDS:
        is_unsigned = function in _BITS or (function, dtype) == ("add", "int64")
        return f"u{dtype}" if is_unsigned and not dtype.startswith("u") else dtype
    return dtype if function == "add" and dtype in ("float32", "float16", "bfloat16") else ""
