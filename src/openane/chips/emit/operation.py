"""Encodes one engine operation into the register fields of its task: the inverse of `chips.decode`.

Each group of fields is made by one rule, a function in the files beside this one. The fields that decide what is
computed are exact: decoding them gives the operation back. The others (tiles, rings in L2, cache hints) only change how
fast it is computed. They are what Apple's compiler chooses where its rule is known, and harmless values where it is
not.

Addresses are kept apart from all other fields (`address_names`, `addresses`). Most tasks of a program differ from
another in nothing but addresses, so that the other fields need to be encoded only once for all of them.
"""

from __future__ import annotations

from openane.chips.emit.apart import section_places
from openane.chips.emit.neural import kernel_dma_fields, neural_fields, only_section, stream_fields
from openane.chips.emit.patches import Patch, planar_patch
from openane.chips.emit.planar import planar_fields
from openane.chips.emit.policy import Policy
from openane.chips.emit.rings import Ring, TilePlan
from openane.chips.emit.sides import first_fields, form, result_fields, second_fields, source_dma_fields
from openane.engine import Access, NeuralOperation, Operation, Space, sources
from openane.registers import Fields

SOURCE_PLACES = (("first", "TileDMASrc.BaseAddr.Addr", "L2.SourceBase.Addr"),
                 ("second", "TileDMASrc.SecondBaseAddr.Addr", "L2.SecondBase.Addr"))
RESULT_PLACES = ("result", "TileDMADst.BaseAddr.Addr", "L2.ResultBase.Addr")
"""Operands, and the fields that say where they lie in memory and in L2."""


def encode_operation(operation: Operation, plan: TilePlan, policy: Policy, followed: Patch | None = None,
                     surface: int = 0) -> Fields:
    """All fields of the task for `operation` but its addresses and those of `schedule.py` (header, hazards, hints).

    `plan` says how the task goes through its result tile by tile. `followed` is the patch of the neural-engine task
    that takes a planar operation's result patch by patch, where there is one. `surface` is the size in bytes of the
    surface in memory of which the result is one of several parts; 0 where it is all of it.
    """
    if isinstance(operation, NeuralOperation):
        fields = kernel_dma_fields(operation.coefficients, policy)
        fields |= neural_fields(operation, policy)
        fields |= plan.patch.fields() if plan.patch is not None else {}
        first, second = operation.source, None
    else:
        fields = kernel_dma_fields(None, policy)
        fields |= planar_fields(operation, policy)
        fields |= planar_patch(operation, policy, followed)
        first, second = operation.first, operation.second
    strides = form(operation)
    fields |= first_fields(first, strides, plan.rings.get("first"), policy)
    if second is not None:
        fields |= second_fields(second, plan.rings.get("second"), policy)
    fields |= source_dma_fields(first, second, policy)
    fields |= result_fields(operation.result, strides, plan.rings.get("result"), policy, surface)
    fields["Common.TileCfg.TileHeight"] = plan.tile_height
    return fields


def placed(operation: Operation, plan: TilePlan, policy: Policy) -> list[tuple[str, int]]:
    """The fields that say where the operands lie in memory and, they or what of them passes through it, in L2, and
    where the streams do; and the values of these fields. Framed tasks do not state that something lies at the start of
    L2."""
    found = [(name, place) for access, (operand, *fields) in _placed_operands(operation)
             for name, place in zip(fields, _places(access, plan.rings.get(operand)), strict=True)
             if place is not None and (place or policy.frames is None or not name.startswith("L2."))]
    if not isinstance(operation, NeuralOperation) or operation.coefficients is None:
        return found
    if policy.limits.coefficients.table_apart:
        return found + section_places(operation.coefficients)
    fields, streams = stream_fields(policy.limits.cores), only_section(operation.coefficients).streams
    base = streams.offset
    return found + [(fields[core][1], base + offset) for core, offset, _ in streams.parts]


def _placed_operands(operation: Operation) -> list[tuple[Access, tuple[str, str, str]]]:
    return [*zip(sources(operation), SOURCE_PLACES, strict=False), (operation.result, RESULT_PLACES)]


def _places(access: Access, ring: Ring | None) -> tuple[int | None, int | None]:
    """Rule: in memory an operand lies where it is said to, in L2 it does, another's copy, or the ring it passes
    through."""
    resident = access if access.space is Space.L2 else access.copy
    near = resident.offset if resident is not None else None if ring is None else ring.base
    return access.offset if access.space is Space.MEMORY else None, near
