"""H13: engine operation to task fields, the inverse of decode.py. Each group of fields comes from one named rule.

Fields that decide the result are exact: decode(encode(operation)) == operation. The others (tiles, rings, cache hints)
follow Apple's compiler where the rule is known and are harmless where it is not.
"""

from __future__ import annotations

from openane.chips.h13.neural import kernel_dma_fields, neural_fields
from openane.chips.h13.planar import planar_fields
from openane.chips.h13.scratchpad import TilePlan
from openane.chips.h13.sides import first_fields, result_fields, second_fields, source_dma_fields
from openane.engine import NeuralOperation, Operation, PlanarOperation
from openane.registers import Fields


def encode_operation(operation: Operation, plan: TilePlan) -> Fields:
    """Body fields (everything but the header and planar neighbours) of the task for `operation`."""
    fields: Fields = {}
    if isinstance(operation, NeuralOperation):
        fields |= neural_fields(operation)
    else:
        fields |= planar_fields(operation)
    fields |= _tiling(operation, plan)
    fields |= kernel_dma_fields(operation.coefficients if isinstance(operation, NeuralOperation) else None)
    return fields


def _tiling(operation: Operation, plan: TilePlan) -> Fields:
    """Rule: operands with their rings; planar tiles are powers of two (width 16 to 512, height up to 32)."""
    planar = isinstance(operation, PlanarOperation)
    first, second = (operation.first, operation.second) if planar else (operation.source, None)  # type: ignore[union-attr]
    fields: Fields = {"Common.TileCfg.TileHeight": plan.tile_height}
    fields |= first_fields(first, planar, plan.rings.get("first"))
    if second is not None:
        fields |= second_fields(second, plan.rings.get("second"))
    fields |= source_dma_fields(first, second) | result_fields(operation.result, planar, plan.rings.get("result"))
    if planar:
        _, _, _, h, w = first.shape
        fields |= {"Common.PETile.WidthLog2": min(max((w - 1).bit_length(), 4), 9),
                   "Common.PETile.HeightLog2": min((h - 1).bit_length(), 5)}
    return fields
