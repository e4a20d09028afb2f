"""H13: operand accesses to register fields. The inverse of decode.py's operand readers.

An access is expressible when its strides are what the registers can say: W contiguous (or C and W swapped), every
other stride a multiple of 64 bytes in memory and 16 in L2, broadcast (stride 0) only where the planar engine has a bit.
Registers of extent-1 dimensions have no effect; they continue the dense surface, as Apple's compiler writes them.
"""

from __future__ import annotations

from dataclasses import dataclass

from openane.engine import Access, DType, Space
from openane.engine.access import Shape
from openane.errors import ProgramError
from openane.registers import Fields


@dataclass(frozen=True, slots=True)
class Stored:
    """An access as the registers see it: extents and strides in storage order, broadcast and swap taken out."""

    extents: Shape
    strides: Shape
    swapped: bool
    broadcast: tuple[str, ...]


def stored(access: Access, what: str, *, may_swap: bool, may_broadcast: bool) -> Stored:
    """How an access is stored. ProgramError when W is not contiguous and no swap can make it so."""
    element = access.dtype.size * access.interleave
    n, c, d, h, w = access.shape
    sn, sc, sd, sh, sw = access.strides
    hidden = tuple(axis for axis, extent, stride in zip("CDHW", access.shape[1:], access.strides[1:], strict=True)
                   if stride == 0 and extent > 1 and access.space is not Space.CHAIN and not _one_block(access, axis))
    if hidden and not may_broadcast:
        raise ProgramError(f"{what} cannot be broadcast along {', '.join(hidden)}: only planar operands can")
    swapped = access.interleave == 1 and (
        (w > 1 and sw not in (0, element)) or ((w == 1 or sw == 0) and c > 1 and sc == access.dtype.size))
    if swapped and not may_swap:
        raise ProgramError(f"{what} must be contiguous along W (stride {element}), not {sw}: {access}")
    if swapped and c > 1 and sc not in (0, access.dtype.size):
        raise ProgramError(f"{what} with channels and width swapped needs channel stride {access.dtype.size}, not {sc}")
    if not swapped and w > 1 and sw not in (0, element):
        raise ProgramError(f"{what} must be contiguous along W (stride {element}), not {sw}: {access}")
    extents = [1 if axis in hidden else extent for axis, extent in zip("NCDHW", access.shape, strict=True)]
    strides = [sn, sc, sd, sh, sw]
    if swapped:
        extents[1], extents[4] = extents[4], extents[1]
        strides[1], strides[4] = strides[4], strides[1]
    return Stored(tuple(extents), tuple(strides), swapped, hidden)  # type: ignore[arg-type]


def _one_block(access: Access, axis: str) -> bool:
    """Interleaved channels that fit one block have no channel stride; that is no broadcast."""
    return axis == "C" and access.shape[1] <= access.interleave


def dense_strides(view: Stored, element: int, align: int) -> tuple[int, int, int, int]:
    """Group, channel, depth and row strides to write: the access's own, or the dense continuation where extent is 1."""
    n, c, d, h, w = view.extents
    sn, sc, sd, sh, _ = view.strides
    row = sh if h > 1 else -(-w * element // align) * align
    plane = sc if c > 1 and sc else row * h
    depth = sd if d > 1 else plane * c
    group = sn if n > 1 else depth * d
    return group, plane, depth, row


def memory_fields(access: Access, view: Stored, prefix: str) -> Fields:
    """Base, strides of a tile DMA operand; `prefix` is `TileDMASrc.`, `TileDMASrc.Second` or `TileDMADst.`."""
    group, plane, depth, row = dense_strides(view, access.dtype.size * access.interleave, 64)
    return {f"{prefix}BaseAddr.Addr": access.offset, f"{prefix}RowStride.Stride": row,
            f"{prefix}PlaneStride.Stride": plane, f"{prefix}DepthStride.Stride": depth,
            f"{prefix}GroupStride.Stride": group}


def l2_fields(access: Access, view: Stored, prefix: str) -> Fields:
    """Base and strides of an operand that lies in L2; `prefix` is `Source`, `Second` or `Result`."""
    group, channel, depth, row = dense_strides(view, access.dtype.size, 16)
    return ring_fields(prefix, access.offset, channel, row, depth, group)


def ring_fields(prefix: str, base: int, channel: int, row: int, depth: int, group: int) -> Fields:
    """L2 base and strides, resident or ring."""
    return {f"L2.{prefix}Base.Addr": base, f"L2.{prefix}ChannelStride.Stride": channel,
            f"L2.{prefix}RowStride.Stride": row, f"L2.{prefix}DepthStride.Stride": depth,
            f"L2.{prefix}GroupStride.Stride": group}


def format_fields(access: Access, prefix: str, *, idle: bool) -> Fields:
    """A memory operand's format word; idle sides still state interleave 1."""
    if idle:
        return {f"{prefix}.Interleave": 1}
    fp16 = access.dtype is DType.FLOAT16
    return {f"{prefix}.FmtMode": int(fp16), f"{prefix}.Truncate": 3 if fp16 else 0,
            f"{prefix}.MemFmt": str(access.dtype), f"{prefix}.Interleave": access.interleave}


def shape_fields(shape: Shape, side: str) -> Fields:
    """Dimensions of the source (`In`) or the result (`Out`); the group count is written once, by the source."""
    channels = "Common.Cin.C" if side == "In" else "Common.Cout.C"
    n, c, d, h, w = shape
    fields: Fields = {f"Common.{side}Dim.W": w, f"Common.{side}Dim.H": h, f"Common.{side}Depth.D": d, channels: c}
    if side == "In":
        fields["Common.GroupConvCfg.NumGroups"] = n
    return fields


def window_fields(kernel: tuple[int, int, int], stride: tuple[int, int, int], padding: tuple[int, int, int]) -> Fields:
    """A window of D, H, W taps; a 1x1x1 one for operations without."""
    return {"Common.ConvCfg3d.Kd": kernel[0], "Common.ConvCfg.Kh": kernel[1], "Common.ConvCfg.Kw": kernel[2],
            "Common.ConvCfg3d.Sz": stride[0], "Common.ConvCfg.Sy": stride[1], "Common.ConvCfg.Sx": stride[2],
            "Common.ConvCfg3d.Pz": padding[0], "Common.ConvCfg.Py": padding[1], "Common.ConvCfg.Px": padding[2],
            "Common.ConvCfg.Ox": 1, "Common.ConvCfg.Oy": 1, "Common.ConvCfg3d.Oz": 1}
