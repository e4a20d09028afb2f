"""The register fields of a planar-engine operation: task type, functions, scales."""

from __future__ import annotations

from openane.chips.emit.operands import shape_fields, window_fields
from openane.chips.emit.policy import Policy
from openane.engine import Elementwise, GainOffset, PlanarOperation, Pool, Pooling, Reduce, Reduction, Space
from openane.errors import ProgramError
from openane.registers import Fields


def planar_fields(operation: PlanarOperation, policy: Policy) -> Fields:
    """Rule: one or two operands, OutDim states the extents the operation works on."""
    first, second, result = operation.first, operation.second, operation.result
    fields: Fields = {
        **window_fields((1, 1, 1), (1, 1, 1), (0, 0, 0)),
        "Common.GroupConvCfg.UnicastCin": 1, "NE.KernelCfg.PalettizeBits": policy.idle.palette_bits, "NE.MACCfg.En": 1,
        "PE.Cfg.Abs": int(operation.absolute), "PE.Cfg.NegateFirst": int(operation.negate),
        "PE.Cfg.SubtractSecond": int(operation.subtract), "PE.Cfg.SecondEn": int(second is not None),
        "PE.PreScale.PreScale": operation.pre_scale, "L2.L2Cfg.InputReLU": int(operation.first_relu),
        "L2.L2Cfg.SecondInputReLU": int(operation.second_relu), "PE.FinalScale.FinalScale": 1.0,
    }
    n, c, d, h, w = first.shape
    expected = (n, c, 1, 2, 1) if isinstance(operation, GainOffset) else first.shape
    if second is not None and second.shape != expected:
        raise ProgramError(f"the second operand must have extents {expected}, not {second.shape}")
    reduced = (n, c, 1, 1, 1) if isinstance(operation, Reduction) else first.shape
    if not isinstance(operation, Pooling) and result.shape != reduced:
        raise ProgramError(f"the result must have extents {reduced}, not {result.shape}")
    out = result.shape if isinstance(operation, Pooling) else first.shape
    if isinstance(operation, Pooling) and out[:3] != first.shape[:3]:
        raise ProgramError(f"pooling keeps N, C and D: {first} -> {result}")
    streamed_second = second is not None and second.space is Space.MEMORY
    fields |= shape_fields(out, "Out")
    fields["Common.Cfg.Sources"] = int(first.space is Space.MEMORY or not streamed_second) + 2 * int(streamed_second)
    return fields | _planar_mode(operation)


def _planar_mode(operation: PlanarOperation) -> Fields:
    if not isinstance(operation, Elementwise | GainOffset | Reduction | Pooling):
        raise ProgramError(f"{type(operation).__name__} is not a planar operation this chip has")
    fields: Fields = {"PE.BiasScale.Scale": operation.scale, "PE.BiasScale.Bias": operation.bias,
                      "PE.Cfg.ReluEn": int(operation.relu)}
    if isinstance(operation, GainOffset):
        if operation.second is None:
            raise ProgramError("a gain-offset operation needs its vectors as second operand")
        return fields | {"Common.Cfg.TaskType": "gain_offset"}
    if isinstance(operation, Elementwise):
        kind = "binary" if operation.second is not None else "unary"
        return fields | {"Common.Cfg.TaskType": kind, "PE.Cfg.OpMode": str(operation.function)}
    fields["PE.FinalScale.FinalScale"] = operation.final_scale
    if isinstance(operation, Reduction):
        maximum = operation.reduce is Reduce.MAXIMUM
        return fields | {
            "Common.Cfg.TaskType": "binary_reduce" if operation.second is not None else "reduce",
            "PE.Cfg.OpMode": str(operation.function), "PE.Cfg.PoolMode": str(operation.reduce),
            "PE.Cfg.Root": str(operation.root), "PE.PreScale.Epsilon": operation.epsilon,
            "L2.L2Cfg.PaddingMode": "minus_infinity" if maximum else "zero"}
    if operation.second is not None:
        raise ProgramError("pooling has one operand")
    return fields | {
        "Common.Cfg.TaskType": "pool", "PE.Cfg.PoolMode": str(operation.pool),
        "L2.L2Cfg.PaddingMode": "minus_infinity" if operation.pool is Pool.MAXIMUM else "zero",
        **window_fields((1, *operation.kernel), (1, *operation.stride), (0, *operation.padding))}
