"""What an ONNX node gives: known now where its operands are, otherwise what its handler adds to the graph."""

from __future__ import annotations

from openane.errors import UnsupportedError
from openane.graph import Value
from openane.importers.onnx.fold import FOLDS, REFERENCE_FOLDS, SHAPE_ONLY, SHAPING, try_fold
from openane.importers.onnx.known import computed_now
from openane.importers.onnx.operators import OPERATORS
from openane.importers.onnx.step import OnnxStep, Result
from openane.importers.step import unknown_operator


def result_of(step: OnnxStep) -> Result:
    """A node's results. UnsupportedError for an operator that is not known, or not of what is computed."""
    computed = any(isinstance(operand, Value) for operand in step.inputs)
    folded = try_fold(step, computed)
    if folded is not None:
        return folded
    handler = OPERATORS.get(step.op)
    if handler is not None:
        known = None if computed else computed_now(step, handler)
        return handler(step) if known is None else known
    if step.op in SHAPING:
        for index in range(len(step.inputs)):
            step.array(index, f"input {index}")
    if step.op in FOLDS or step.op in SHAPE_ONLY or step.op in REFERENCE_FOLDS:
        raise UnsupportedError(step.label, "this operator is supported on constants only",
                               found=", ".join(name for name, operand in zip(step.input_names, step.inputs, strict=True)
                                               if isinstance(operand, Value)),
                               remedy="export with fixed shapes, so that it is computed at import")
    raise unknown_operator(step.label, step.op, OPERATORS, "export it in other operators "
                           "(openane.importers.onnx.OPERATORS has those known), or compute it on the host")
