"""The pages of `tilegen layout`: data as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilegen.decisions import count_words, draw_table
from tilegen.drawing.reading import spell_shape

Data = Mapping[str, Any]
_KINDS = {
    "TileLayout": "affine: strides on named axes",
    "SwizzleLayout": "an XOR of address bits",
    "ComposeLayout": "a swizzle over a tile",
    "PaddedSharedLayout": "shared memory with padding",
    "LinearLayout": "XOR-linear, from places to elements",
}
_COUNTS = {"grid": "CTAs of the grid", "cluster": "CTAs of a cluster", "memory": "elements"}
_READS = {
    "column": "a warp reads a column, lane l its row l",
    "row": "a warp reads a row, lane l its column l",
    "ldmatrix": "a warp loads 8 x 8 matrices, rows of 16 bytes",
}


def layout_text(described: Data) -> str:
    """The page of a layout: what it is, then a table of its axes."""
    kind = described["kind"]
    rows = [("kind", f"{kind}: {_KINDS[kind]}" if kind in _KINDS else kind)]
    if described["places"]:
        rows.append(("places as", described["places"]))
    copies = "" if described["copies"] == 1 else f", {described['copies']} copies of each"
    elements = count_words(described["elements"], "element", "elements")
    copies += "" if described.get("held", True) else ", some held nowhere"
    rows += [
        ("shape", f"{spell_shape(described['shape'])}: {elements}{copies}"),
        ("scope", _spell_scope(described)),
        ("injective", _spell_injective(described)),
    ]
    table = [(a["axis"], _spell_axis(a), str(a["extent"]), str(a["span"])) for a in described["axes"]]
    return "\n".join(
        [
            described["layout"],
            *(f"{name:<9}  {what}" for name, what in rows),
            "",
            *draw_table(("axis", "counts", "extent", "span"), table, 2),
        ]
    )


def _spell_scope(described: Data) -> str:
    if described["scope"]:
        return "{}s of a {}".format(*described["scope"])
    return described["scope_reason"] or "no threads"


def _spell_injective(described: Data) -> str:
    if described["injective"] is None:
        return f"not decided: {described['injective_reason']}"
    return "yes: no place holds two elements" if described["injective"] else "no: some place holds two elements"


def _spell_axis(axis: Data) -> str:
    if axis["kind"] == "thread":
        return f"{axis['sub']}s of a {axis['scope']}"
    return _COUNTS.get(axis["kind"], "places")


def places_text(found: Sequence[Data]) -> str:
    """Where elements lie: a line for each copy of each of them."""
    columns = list(dict.fromkeys(name for at in found for place in at["places"] for name in place))
    rows = [
        (",".join(map(str, at["coord"])), *(str(place.get(name, "")) for name in columns))
        for at in found for place in at["places"]
    ]  # fmt: skip
    return "\n".join(draw_table(("element", *columns), rows, 1))


def banks_text(found: Data, dtype: str) -> str:
    """The bytes of a tile, and the wavefronts of an access."""
    size, lines = count_words(found["bytes"], "byte", "bytes"), count_words(found["lines"], "line", "lines")
    text = [f"{dtype}: {size}, {lines} of 128 bytes"]
    if "access" in found:
        text.append(_READS[found["access"]])
        for counted in found["instructions"]:
            text += _instruction_lines(counted, found["access"])
    return "\n".join(text)


def _instruction_lines(counted: Data, access: str) -> list[str]:
    each, first = counted["wavefronts"], counted["first"]
    name = counted["kind"].replace("matrix", "matrix.x") if access == "ldmatrix" else "read"
    times = f"{counted['count']} {name}" + ("s" if counted["count"] != 1 and access != "ldmatrix" else "")
    most = f"{each['least']}" if each["least"] == each["most"] else f"{each['least']} to {each['most']}"
    total = f"  {times}: {count_words(each['sum'], 'wavefront', 'wavefronts')}, {counted['floor']} at best; {most} each"
    if access == "ldmatrix" and counted["kind"] != "ldmatrix1":
        return [total]
    return [f"  first: banks {' '.join(map(str, first['banks']))}", total]
