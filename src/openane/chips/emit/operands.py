"""The register fields of an operand: the inverse of what `chips.decode` reads of one.

The registers can express an access when W is contiguous (or C is, exchanged with W), every other stride is aligned, and
nothing is broadcast (stride 0) except where the planar engine has a bit for it. The stride of a dimension of extent 1
has no effect; it is stated as if the surface were dense, as Apple's compiler does.
"""

from __future__ import annotations

from functools import cache, lru_cache

from openane.chips.limits import Limits
from openane.engine import Access, DType, Space
from openane.engine.access import AXES, CHANNELS, WIDTH, Shape
from openane.errors import ProgramError
from openane.record_classes import dataclass
from openane.registers import Fields
from openane.rounding import ceil_div

REMEMBERED = 1 << 12


@dataclass(frozen=True, slots=True)
class StoredAccess:
    """An access as the registers see it: extents and strides in storage order, broadcast and swap taken out."""

    extents: Shape
    strides: Shape
    swapped: bool
    broadcast: tuple[str, ...]


def stored(access: Access, what: str, *, may_swap: bool, may_broadcast: bool) -> StoredAccess:
    """How an access is stored. ProgramError when W is not contiguous and no swap can make it so."""
    view = _view(access.shape, access.strides, access.space is Space.CHAIN, access.dtype, access.interleave,
                 access.packed)
    element = access.dtype.size * access.interleave
    if view.broadcast and not may_broadcast:
        raise ProgramError(f"{what} cannot be broadcast along {', '.join(view.broadcast)}: only planar operands can")
    if view.swapped and not may_swap:
        raise ProgramError(f"{what} must be contiguous along W (stride {element}), not {access.strides[4]}: {access}")
    if view.swapped and access.shape[1] > 1 and access.strides[1] not in (0, element):
        raise ProgramError(f"{what} with channels and width swapped needs channel stride {element}, "
                           f"not {access.strides[1]}")
    if not view.swapped and access.shape[4] > 1 and access.strides[4] not in (0, element):
        raise ProgramError(f"{what} must be contiguous along W (stride {element}), not {access.strides[4]}: {access}")
    return view


@lru_cache(maxsize=REMEMBERED)
def _view(shape: Shape, strides: Shape, chained: bool, dtype: DType, interleave: int, packed: int) -> StoredAccess:
    """Storage order of an access whose registers may not be able to say it. Remembered: tasks repeat most shapes."""
    sn, sc, sd, sh, sw = strides
    hidden = () if chained else _standing(shape, strides, interleave, packed)
    n, c, d, h, w = [1 if axis in hidden else extent for axis, extent in zip(AXES, shape, strict=True)]
    if packed == WIDTH or (interleave == 1 and _swapped(shape, strides, dtype.size)):
        return StoredAccess((n, w, d, h, c), (sn, sw, sd, sh, sc), True, hidden)
    return StoredAccess((n, c, d, h, w), (sn, sc, sd, sh, sw), False, hidden)


def _standing(shape: Shape, strides: Shape, interleave: int, packed: int) -> tuple[str, ...]:
    """The dimensions, N apart, that are walked without moving; one whose elements lie in one block moves within it."""
    return tuple([AXES[axis] for axis in range(1, 5) if strides[axis] == 0 and shape[axis] > 1
                  and not (axis == packed and shape[axis] <= interleave)])


def _swapped(shape: Shape, strides: Shape, element: int) -> bool:
    """Whether C lies where W does otherwise: W goes in other steps than from element to element, or not at all while C
    goes so."""
    if shape[WIDTH] > 1 and strides[WIDTH] != 0:
        return strides[WIDTH] != element
    return shape[CHANNELS] > 1 and strides[CHANNELS] == element


def memory_strides(access: Access, view: StoredAccess, limits: Limits, *, rows_as_channels: bool = False,
                   grouped: bool = False, surface: int = 0) -> tuple[int, int, int, int]:
    """Group, plane, depth and row stride in memory: the access's own, and for extents of 1 what
    Apple's compiler states.

    That is the stride the dimension would have in the dense surface. Where the rows of a matrix are read as channels
    (`rows_as_channels`: H is 1 and every channel a row) or rows as groups, the row stride is that of the dimension they
    changed places with: the whole surface, all of it (`surface` bytes) where the access is a part. In the groups of a
    convolution (`grouped`) the depth stride spans them all.
    Seen in all recorded products, transposes, reductions of W and grouped convolutions.
    """
    element = access.dtype.size * access.interleave
    n, c, d, h, w = view.extents
    c = ceil_div(c, access.interleave)
    sn, sc, sd, sh, _ = view.strides
    row = sh if h > 1 else limits.memory_row(w * element)
    plane = sc if c > 1 and sc else row * h
    by_group = _rows_as_groups(view, c, plane)
    whole = n * sn if by_group and c == 1 else max(plane * c, row * h)
    if rows_as_channels:
        plane, row, whole = _rows_as_channels(view, c, access.interleave, (plane, row, surface or whole))
    if by_group:
        plane, row = whole if c == 1 else plane, whole
    depth = sd if d > 1 else n * sn if grouped and n > 1 else whole
    return _group(view, max(depth * d, whole)), plane, depth, row


def _group(view: StoredAccess, single: int) -> int:
    """The group stride, `single` where there is one group."""
    return view.strides[0] if view.extents[0] > 1 else single


def _rows_as_groups(view: StoredAccess, channels: int, plane: int) -> bool:
    """Whether the groups of an access are rows of its channels."""
    n, _, _, h, _ = view.extents
    step = view.strides[0]
    return n > 1 and h == 1 and 0 < step < (plane if channels > 1 else n * step)


def _rows_as_channels(view: StoredAccess, channels: int, interleave: int,
                      dense: tuple[int, int, int]) -> tuple[int, int, int]:
    """Plane stride, row stride and bytes of a surface whose rows are read as channels; `dense`: those it has else."""
    _, _, _, h, w = view.extents
    plane, row, whole = dense
    if channels == 1 < h and (view.swapped or w == 1):
        plane = row
    return plane, whole if h == 1 and interleave == 1 else row, whole


def l2_strides(view: StoredAccess, element: int, limits: Limits, *, result: bool = False) -> tuple[int, int, int, int]:
    """Group, channel, depth and row stride of a tensor in L2, where channels lie innermost, then D, then H.

    A single group has group stride 0 (all recorded tasks). Where H has moved into the groups (n > 1, H of 1), the row
    of a source is one line of the tensor, that of a result all of it (recorded reductions of W). The depth stride is
    one line, of a swapped result without row pads all of it (recorded products of few rows).
    """
    n, c, d, h, w = view.extents
    sn, sc, sd, sh, _ = view.strides
    channel = sc if c > 1 and sc else limits.l2_row(w * element)
    line = _line(view, channel)
    depth = sd if d > 1 else h * sh if result and view.swapped and h > 1 and sh == line else line
    row = sh if h > 1 else n * (sn or line) if result and n > 1 else depth * d
    return _group(view, 0), channel, depth, row


def _line(view: StoredAccess, channel: int) -> int:
    """Bytes of one row of all channels; where groups or rows lie between two channels, those of all of them."""
    n, c, _, h, _ = view.extents
    sn, _, _, sh, _ = view.strides
    if c > 1 and h > 1 and 0 < sh < channel:
        return h * sh
    return n * sn if n > 1 and c > 1 and 0 < sn < channel else channel * c



def packed_strides(view: StoredAccess, element: int, limits: Limits) -> tuple[int, int, int, int]:
    """Group, plane, depth and row stride of the dense surface in memory with the extents of `view`."""
    _, c, d, h, w = view.extents
    row = limits.memory_row(w * element)
    return row * h * c * d, row * h, row * h * c, row


def memory_fields(access: Access, view: StoredAccess, prefix: str, limits: Limits, *, rows_as_channels: bool = False,
                  grouped: bool = False, surface: int = 0) -> Fields:
    """Strides of a tile DMA operand; `prefix` is `TileDMASrc.`, `TileDMASrc.Second` or `TileDMADst.`."""
    strides = memory_strides(access, view, limits, rows_as_channels=rows_as_channels, grouped=grouped, surface=surface)
    return stride_fields(prefix, *strides)


def used_strides(fields: Fields, view: StoredAccess) -> Fields:
    """The strides of extents of more than 1, which are all that framed tasks state."""
    n, c, d, h, _ = view.extents
    used = {"Group": n > 1, "Plane": c > 1, "Channel": c > 1, "Depth": d > 1, "Row": h > 1}
    return {name: value for name, value in fields.items()
            if all(not name.endswith(f"{axis}Stride.Stride") for axis, more in used.items() if not more)}


def stride_fields(prefix: str, group: int, plane: int, depth: int, row: int) -> Fields:
    """The stride registers of one side of tile DMA."""
    return dict(zip(_memory_names(prefix), (group, plane, depth, row), strict=True))


@cache
def _memory_names(prefix: str) -> tuple[str, ...]:
    """Group, plane, depth and row stride of one side of tile DMA."""
    return tuple(f"{prefix}{axis}Stride.Stride" for axis in ("Group", "Plane", "Depth", "Row"))


def l2_fields(access: Access, view: StoredAccess, prefix: str, limits: Limits) -> Fields:
    """Strides of an operand that lies in L2; `prefix` is `Source`, `Second` or `Result`."""
    group, channel, depth, row = l2_strides(view, access.dtype.size, limits, result=prefix == "Result")
    return ring_fields(prefix, channel, row, depth, group)


def ring_fields(prefix: str, channel: int, row: int, depth: int, group: int) -> Fields:
    """L2 strides, resident or ring."""
    return dict(zip(_ring_names(prefix), (channel, row, depth, group), strict=True))


@cache
def _ring_names(prefix: str) -> tuple[str, ...]:
    return tuple(f"L2.{prefix}{axis}Stride.Stride" for axis in ("Channel", "Row", "Depth", "Group"))


def format_fields(access: Access, prefix: str, truncate: int, *, idle: bool) -> Fields:
    """A memory operand's format word (`truncate` is what fp16 states); idle sides still state interleave 1."""
    mode, shortened, memory, interleave = _format_names(prefix)
    if idle:
        return {interleave: 1}
    fp16 = access.dtype is DType.FLOAT16
    return {mode: int(fp16), shortened: truncate if fp16 else 0, memory: access.dtype.value,
            interleave: access.interleave}


@cache
def _format_names(prefix: str) -> tuple[str, str, str, str]:
    return f"{prefix}.FmtMode", f"{prefix}.Truncate", f"{prefix}.MemFmt", f"{prefix}.Interleave"


def shape_fields(shape: Shape, side: str) -> Fields:
    """Dimensions of the source (`In`) or the result (`Out`); the group count is written once, by the source."""
    n, c, d, h, w = shape
    if side == "In":
        return {"Common.InDim.W": w, "Common.InDim.H": h, "Common.InDepth.D": d, "Common.Cin.C": c,
                "Common.GroupConvCfg.NumGroups": n}
    return {"Common.OutDim.W": w, "Common.OutDim.H": h, "Common.OutDepth.D": d, "Common.Cout.C": c}


def window_fields(kernel: tuple[int, int, int], stride: tuple[int, int, int], padding: tuple[int, int, int]) -> Fields:
    """A window of D, H, W taps; a 1x1x1 one for operations without."""
    return {"Common.ConvCfg3d.Kd": kernel[0], "Common.ConvCfg.Kh": kernel[1], "Common.ConvCfg.Kw": kernel[2],
            "Common.ConvCfg3d.Sz": stride[0], "Common.ConvCfg.Sy": stride[1], "Common.ConvCfg.Sx": stride[2],
            "Common.ConvCfg3d.Pz": padding[0], "Common.ConvCfg.Py": padding[1], "Common.ConvCfg.Px": padding[2],
            "Common.ConvCfg.Ox": 1, "Common.ConvCfg.Oy": 1, "Common.ConvCfg3d.Oz": 1}
