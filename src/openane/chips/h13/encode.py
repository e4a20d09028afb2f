"""H13: engine operation to task fields, the inverse of decode.py. Each group of fields comes from one named rule.

Fields that decide the result are exact: decode(encode(operation)) == operation. The others (tiles, rings, cache hints)
follow Apple's compiler where the rule is known and are harmless where it is not.
"""

from __future__ import annotations

from openane.chips.h13.neural import kernel_dma_fields, neural_fields
from openane.chips.h13.patches import Patch, planar_patch
from openane.chips.h13.planar import planar_fields
from openane.chips.h13.scratchpad import TilePlan
from openane.chips.h13.sides import first_fields, form, result_fields, second_fields, source_dma_fields
from openane.engine import NeuralOperation, Operation
from openane.registers import Fields


def encode_operation(operation: Operation, plan: TilePlan, followed: Patch | None = None, surface: int = 0) -> Fields:
    """Body fields (everything but what schedule.py states) of the task for `operation`. `followed` is the patch of a
    neural-engine task that takes a planar one's result patch by patch, `surface` the bytes of the surface in memory the
    result is one of several parts of."""
    if isinstance(operation, NeuralOperation):
        fields = kernel_dma_fields(operation.coefficients)
        fields |= neural_fields(operation)
        fields |= plan.patch.fields() if plan.patch is not None else {}
        first, second = operation.source, None
    else:
        fields = kernel_dma_fields(None)
        fields |= planar_fields(operation)
        fields |= planar_patch(operation, followed)
        first, second = operation.first, operation.second
    strides = form(operation)
    fields |= first_fields(first, strides, plan.rings.get("first"))
    if second is not None:
        fields |= second_fields(second, plan.rings.get("second"))
    fields |= source_dma_fields(first, second)
    fields |= result_fields(operation.result, strides, plan.rings.get("result"), surface)
    fields["Common.TileCfg.TileHeight"] = plan.tile_height
    return fields
