"""The symbol table of an HWX file: addresses of buffers, element types, and tensors as stabs.

A tensor stab spells out nested arrays, outermost first, each with its extent and byte stride:

    NAME:t16=ar1;0;1;17=s4096n:ar1;0;64;18=s64c:ar1;0;1;19=s64h:ar1;0;1;20=s2w:5

The letters name the axes; the last number is the element type. Apple's stabs have n, c, h and w. Where these do not
say it all, an axis d (depth) follows c, and i (channels side by side, W's stride counting blocks of them) follows w.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from openane.engine import DType
from openane.formats.hwx.descriptors import ELEMENT_TYPES, checked_name, element_type
from openane.formats.macho import Symbol
from openane.program import Buffer, Layout, Role

EXTERNAL_SYMBOL, SECTION_SYMBOL = 0x0F, 0x0E
TYPE_STAB, TENSOR_STAB = 0x80, 0x20

# In the order of their numbers, which start at 1.
TYPES = (
    "void:t{0}={0}", "int8:t{0}=r2;0;127", "uint8:t{0}=r1;0;255", "int16:t{0}=r1;-32768;32767", "float16:t{0}=r1;2;0",
    "float:t{0}=r1;4;0", "raw10:t{0}=r1;-512;511", "lut:t{0}=", "uint4:t{0}=r1;0;15", "uint6:t{0}=r1;0;63",
    "uint1:t{0}=r1;0,1", "uint2:t{0}=r1;0;3", "packed10:t{0}=r1;-512;511", "y10:t{0}=r1;-512;511",
    "uint16:t{0}=r1;0;65535", "e4m3:t{0}=r1;1;0", f"int32:t{{0}}=r1;{-2**31};{2**31 - 1}",
    f"uint32:t{{0}}=r1;0;{2**32 - 1}", f"int64:t{{0}}=r1;{-2**63};{2**63 - 1}", f"uint64:t{{0}}=r1;0;{2**64 - 1}",
    "raw12:t{0}=r1;-512;511", "y12:t{0}=r1;-512;511", "int4:t{0}=r1;-8;7",
)
_TENSOR = re.compile(r"\d{1,9}=(?P<axes>(?:ar1;0;\d{1,20};\d{1,9}=s\d{1,20}[a-z]:){4,6})(?P<type>\d{1,9})")
_AXIS = re.compile(r"ar1;0;(\d+);\d+=s(\d+)([a-z]):")


def type_symbols(count: int) -> list[Symbol]:
    """The stabs of the first `count` element types."""
    return [Symbol(text.format(number), TYPE_STAB) for number, text in enumerate(TYPES[:count], 1)]


def tensor_symbols(buffers: Iterable[Buffer], first: int) -> Iterator[Symbol]:
    """A stab for every buffer with a layout; type numbers from `first` on, one per axis."""
    for buffer in buffers:
        if buffer.layout is None:
            continue
        axes = _axes(buffer.layout)
        spelled = "".join(f"ar1;0;{extent};{first + i + 1}=s{stride}{letter}:"
                          for i, (letter, extent, stride) in enumerate(axes))
        name = f"{checked_name(buffer.name)}:t{first}={spelled}{ELEMENT_TYPES[buffer.layout.dtype]}"
        yield Symbol(name, TYPE_STAB if buffer.role is Role.SCRATCH else TENSOR_STAB, description=first % 32)
        first += len(axes) + 1


def read_tensors(symbols: Iterable[Symbol]) -> dict[str, Layout]:
    """Layouts by name, from all tensor stabs; stabs of other kinds and of types the engine does not move are skipped.

    Where a name occurs twice the port's stab (type 0x20) is taken.
    """
    layouts: dict[str, Layout] = {}
    for symbol in symbols:
        if symbol.type not in (TYPE_STAB, TENSOR_STAB):
            continue
        name, _, shape = symbol.name.rpartition(":t")
        match = _TENSOR.fullmatch(shape)
        dtype = element_type(int(match["type"])) if match else None
        if match and dtype and (symbol.type == TENSOR_STAB or name not in layouts):
            layout = _layout(_AXIS.findall(match["axes"]), dtype)
            if layout:
                layouts[name] = layout
    return layouts


def _axes(layout: Layout) -> list[tuple[str, int, int]]:
    """Letter, extent and stride of the axes that must be spelled out."""
    (n, c, d, h, w), (sn, sc, sd, sh, sw) = layout.shape, layout.strides
    axes = [("n", n, sn), ("c", c, sc), ("h", h, sh), ("w", w, sw)]
    if (d, sd) != (1, sn):
        axes.insert(2, ("d", d, sd))
    if layout.interleave > 1:
        axes.append(("i", layout.interleave, layout.dtype.size))
    return axes


def _layout(axes: Sequence[tuple[str, str, str]], dtype: DType) -> Layout | None:
    extents = {letter: int(extent) for extent, _, letter in axes}
    strides = {letter: int(stride) for _, stride, letter in axes}
    if len(extents) != len(axes) or not {"n", "c", "h", "w"} <= set(extents) <= set("ncdhwi"):
        return None
    extents.setdefault("d", 1)
    strides.setdefault("d", strides["n"])
    n, c, d, h, w = (extents[letter] for letter in "ncdhw")
    sn, sc, sd, sh, sw = (strides[letter] for letter in "ncdhw")
    return Layout((n, c, d, h, w), (sn, sc, sd, sh, sw), dtype, extents.get("i", 1))
