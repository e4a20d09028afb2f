"""The fields of the three sides of a task: first operand, second operand, result, each with its memory DMA and its
place in L2."""

from __future__ import annotations

from openane.chips.emit.operands import (
    StoredAccess,
    format_fields,
    l2_fields,
    l2_strides,
    memory_fields,
    ring_fields,
    shape_fields,
    stored,
    used_strides,
)
from openane.chips.emit.policy import Hints, Policy
from openane.chips.emit.rings import Ring
from openane.engine import (
    Access,
    Convolution,
    DType,
    MatrixProduct,
    NeuralOperation,
    Operation,
    PassThrough,
    Reduction,
    Space,
    sources,
)
from openane.errors import ProgramError
from openane.record_classes import dataclass
from openane.registers import Fields

SOURCE_TYPES = {Space.L2: "resident", Space.CHAIN: "chain"}
DMA_FORMS = {side: (f"L2.{side}Cfg.DMAFmt", f"L2.{side}Cfg.DMAInterleave") for side in ("Source", "Result")}


def _kind(access: Access) -> str:
    if access.space is Space.MEMORY:
        return "keep" if access.copy is not None else "stream"
    return SOURCE_TYPES[access.space]


@dataclass(frozen=True, slots=True)
class AccessForm:
    """What the strides of a task's memory operands depend on: the engine, whether rows of a matrix are read as
    channels, whether the groups are those of a convolution."""

    planar: bool
    rows_as_channels: bool = False
    grouped: bool = False


def form(operation: Operation) -> AccessForm:
    """Rule: products, transposes, reductions of rows, copies from L2 and copies into coefficient packing read rows as
    channels."""
    accesses = (*sources(operation), operation.result)
    packed = any(access.interleave > 1 for access in accesses)
    if not isinstance(operation, NeuralOperation):
        return AccessForm(True, packed or (isinstance(operation, Reduction) and _rows_moved(operation.first)))
    copied = (isinstance(operation, PassThrough) and operation.coefficients is None
              and operation.source.space is Space.L2 and operation.result.space is Space.MEMORY)
    swapped = stored(operation.result, "the result", may_swap=True, may_broadcast=True).swapped
    grouped = isinstance(operation, Convolution) and not operation.shared
    return AccessForm(False, packed or copied or swapped or isinstance(operation, MatrixProduct), grouped)


def _rows_moved(access: Access) -> bool:
    """One row of several elements a channel, or one element a row: H has changed places with C."""
    _, c, _, h, w = access.shape
    return h == 1 < w or c == 1 == w


def first_fields(access: Access, form: AccessForm, ring: Ring | None, policy: Policy) -> Fields:
    """Rule: the first operand comes from L2, from a chain, or from memory through a ring or a kept copy."""
    planar = form.planar
    view = stored(access, "the first operand", may_swap=planar, may_broadcast=planar)
    kind = _kind(access)
    fields = shape_fields(access.shape, "In")
    fields |= {"Common.ChCfg.InFmt": access.dtype.value, "L2.SourceCfg.SourceType": kind,
               "Common.Broadcast.FirstSwap": int(view.swapped)}
    fields |= {f"Common.Broadcast.FirstBroadcast{axis}": 1 for axis in view.broadcast}
    fields |= _in_l2(access, view, "Source", ring, policy, planar)
    if access.space is Space.MEMORY:
        strides = memory_fields(access, view, "TileDMASrc.", policy.limits,
                                rows_as_channels=form.rows_as_channels, grouped=form.grouped)
        fields |= _stated(strides, view, policy)
        fields |= {"Header.Bases.RBase0": access.slot, "Header.Bases.RBase0En": 1}
    return fields


def _copy_of(access: Access, view: StoredAccess) -> Access:
    """The copy of an operand. ProgramError where it does not hold the same elements in L2."""
    copy = access.copy
    if copy is None or copy.space is not Space.L2:
        raise ProgramError(f"an operand's copy must lie in L2: {access}")
    expected = tuple(1 if axis in view.broadcast else e for axis, e in zip("NCDHW", access.shape, strict=True))
    if copy.shape != expected or copy.dtype is not access.dtype:
        raise ProgramError(f"an operand's copy must have extents {expected} of {access.dtype}, not {copy}")
    return copy


def _kept(access: Access, view: StoredAccess, prefix: str, policy: Policy) -> Fields:
    copy = _copy_of(access, view)
    other = stored(copy, "an operand's copy", may_swap=True, may_broadcast=True)
    neutral = copy.shape[1] == 1 and copy.shape[4] == 1
    if other.swapped != view.swapped and not neutral:
        raise ProgramError("an operand and its copy must both be swapped, or neither")
    if view.swapped and not other.swapped:
        other = StoredAccess(other.extents, other.strides, True, other.broadcast)
    group, channel, depth, row = l2_strides(other, copy.dtype.size, policy.limits, result=prefix == "Result")
    if copy.shape[0] == 1 and prefix == "Source":
        group = max(depth, depth * copy.shape[2])
    return ring_fields(prefix, channel, row, depth, group)


def _stated(strides: Fields, view: StoredAccess, policy: Policy) -> Fields:
    """The strides a task states: all, in a frame those of extents of more than 1."""
    return strides if policy.frames is None else used_strides(strides, view)


def _in_l2(access: Access, view: StoredAccess, prefix: str, ring: Ring | None, policy: Policy, planar: bool) -> Fields:
    """Rule: how an operand lies in L2, how its copy does, or the ring it passes through. A streamed result that is not
    staged states its ring's base alone (see `addresses`). The form of memory is stated of what passes through it, and
    of results in L2: in frames only of the neural engine's."""
    through_memory = access.space is not Space.L2 or prefix == "Result"
    form, interleave = DMA_FORMS[prefix]
    fields: Fields = {form: int(through_memory and access.dtype is DType.FLOAT16), interleave: access.interleave}
    if access.space is Space.L2:
        if policy.frames is not None and planar:
            fields[form] = 0
        return fields | _stated(l2_fields(access, view, prefix, policy.limits), view, policy)
    if access.copy is not None:
        return fields | _kept(access, view, prefix, policy)
    if prefix == "Result" and access.space is Space.MEMORY and not (ring is not None and ring.staged):
        return fields
    return fields | _through(ring, prefix)


def _through(ring: Ring | None, prefix: str) -> Fields:
    if ring is None:
        return {}
    return ring_fields(prefix, ring.channel, ring.row, ring.depth, ring.group)


def second_fields(access: Access, ring: Ring | None, policy: Policy) -> Fields:
    """Rule: the second operand comes from L2 or is streamed from memory."""
    view = stored(access, "the second operand", may_swap=True, may_broadcast=True)
    if access.interleave != 1 or access.copy is not None or access.space is Space.CHAIN:
        raise ProgramError(f"the second operand can be neither interleaved, nor kept, nor chained: {access}")
    fields: Fields = {"Common.ChCfg.SecondFmt": access.dtype.value, "Common.Broadcast.SecondSwap": int(view.swapped)}
    fields |= {f"Common.Broadcast.SecondBroadcast{axis}": 1 for axis in view.broadcast}
    apart = policy.frames is not None and policy.frames.second_apart
    if apart:
        fields |= {"L2.SecondCfg.SourceType": _kind(access), "L2.SecondCfg.DMAInterleave": 1,
                   "L2.SecondCfg.DMAFmt": int(access.space is Space.MEMORY and access.dtype is DType.FLOAT16)}
    if access.space is Space.L2:
        return fields | _stated(l2_fields(access, view, "Second", policy.limits), view, policy)
    fields |= {"L2.SourceCfg.SecondDMA": 1, "Header.Bases.RBase1": access.slot, "Header.Bases.RBase1En": 1}
    strides = _stated(memory_fields(access, view, "TileDMASrc.Second", policy.limits), view, policy)
    return fields | strides | _through(ring, "Second")


def source_dma_fields(first: Access, second: Access | None, policy: Policy) -> Fields:
    """Rule: one enable for both operands; each side's hints say whether it is in use."""
    used = first.space is Space.MEMORY
    if policy.frames is not None:
        return _framed_dma(first, second, policy)
    second_used = second is not None and second.space is Space.MEMORY
    fields: Fields = {"TileDMASrc.DMAConfig.En": int(used or second_used), "TileDMASrc.Fmt2.Mode": 1}
    fields |= _hints("DMAConfig", used, policy.hints) | _hints("SecondDMAConfig", second_used, policy.hints)
    fields |= format_fields(first, "TileDMASrc.Fmt", policy.idle.truncate, idle=not used)
    if second is not None and second_used:
        fields |= {"TileDMASrc.SecondFmt.Truncate": policy.idle.truncate if second.dtype is DType.FLOAT16 else 0,
                   "TileDMASrc.SecondFmt.MemFmt": str(second.dtype)}
    return fields


def _framed_dma(first: Access, second: Access | None, policy: Policy) -> Fields:
    """Rule: each operand from memory has its enable, hints and format; of a second one the enable is stated where it
    has a configuration word in L2, of a first one that is not from memory where it has none (inferred)."""
    fields: Fields = {}
    apart = policy.frames is not None and policy.frames.second_apart
    if first.space is Space.MEMORY:
        fields |= {"TileDMASrc.DMAConfig.En": 1, **_hints("DMAConfig", True, policy.hints),
                   **format_fields(first, "TileDMASrc.Fmt", policy.idle.truncate, idle=False)}
    if second is not None and second.space is Space.MEMORY:
        fields |= {"TileDMASrc.SecondDMAConfig.En": int(apart), **_hints("SecondDMAConfig", True, policy.hints),
                   **format_fields(second, "TileDMASrc.SecondFmt", policy.idle.truncate, idle=False)}
        if first.space is not Space.MEMORY and not apart:
            fields["TileDMASrc.DMAConfig.En"] = 1
    return fields


def _hints(register: str, used: bool, hints: Hints) -> Fields:
    stated = hints.used_source if used else hints.idle_source
    return {f"TileDMASrc.{register}.{name}": value for name, value in stated.items()}


def result_fields(access: Access, form: AccessForm, ring: Ring | None, policy: Policy, surface: int = 0) -> Fields:
    """Rule: the result stays in L2, is chained, or goes to memory, with or without an L2 copy."""
    planar = form.planar
    view = stored(access, "the result", may_swap=True, may_broadcast=False)
    if access.shape[0] > 1 and access.strides[0] == 0 and access.space is not Space.CHAIN:
        raise ProgramError(f"the result's groups must not lie on each other: {access}")
    kind = _kind(access)
    swap = "Common.Broadcast.ResultSwap" if planar else "Common.Cfg.NEResultSwap"
    fields: Fields = {"Common.ChCfg.OutFmt": access.dtype.value, "L2.ResultCfg.ResultType": kind,
                      swap: int(view.swapped)}
    fields |= _in_l2(access, view, "Result", ring, policy, planar)
    used = access.space is Space.MEMORY
    if used or policy.frames is None:
        fields |= {"TileDMADst.DMAConfig.CacheHint": policy.hints.result, "TileDMADst.DMAConfig.En": int(used)}
        fields |= format_fields(access, "TileDMADst.Fmt", policy.idle.truncate, idle=not used)
    if used:
        strides = memory_fields(access, view, "TileDMADst.", policy.limits,
                                rows_as_channels=form.rows_as_channels, grouped=form.grouped, surface=surface)
        fields |= _stated(strides, view, policy)
        fields |= {"Header.Bases.WBase": access.slot, "Header.Bases.WBaseEn": 1, "TileDMADst.Fmt.ZeroPadFirst": 1,
                   "TileDMADst.Fmt.ZeroPadLast": 1}
        if kind == "stream" and not (ring is not None and ring.staged):
            fields |= {"L2.ResultCfg.L2BfrMode": 2, "TileDMADst.DMAConfig.L2BfrMode": 1}
    return fields
