"""What is said of ONNX nodes that are not imported."""

from __future__ import annotations

from openane.errors import AneError, UnsupportedError
from openane.graph import Value
from openane.importers.onnx.fold import FOLDS, REFERENCE_FOLDS, SHAPE_ONLY, SHAPING
from openane.importers.onnx.operators import OPERATORS
from openane.importers.onnx.step import OnnxStep
from openane.importers.step import unknown_operator

CLASSICAL = "ai.onnx.ml"


def other_classical(label: str, kind: str) -> UnsupportedError:
    """Of a model of a domain of which few are computed."""
    return UnsupportedError(label, f"of {CLASSICAL} linear models are computed, SVMRegressor, and what prepares "
                            "features", found=kind, remedy="leave trees, classes that vote and texts to onnxruntime: a "
                                                           "processor takes microseconds for them")


def other_domain(label: str, domain: str) -> UnsupportedError:
    """Of an operator of a domain that is not known."""
    return UnsupportedError(label, "operators of other domains are not supported", found=domain,
                            remedy="export with operators of the standard domain ai.onnx, or with onnxruntime's "
                                   "optimiser switched off")


def too_many_turns(limit: int, nodes: int) -> UnsupportedError:
    """Of a loop whose turns are more nodes than a model may have."""
    return UnsupportedError("ONNX model", "its loops are too long to unroll: every turn becomes operations of its own",
                            limit=f"{limit} nodes", found=f"a turn of {nodes} nodes",
                            remedy="export one turn as a model with states in and out, and let the host loop")


def no_result(step: OnnxStep) -> AneError:
    """Of an operator that is not known, or not of what is computed. RunTimeOperandError where inputs of it decide a
    shape."""
    if step.op in SHAPING:
        for index in range(len(step.inputs)):
            step.array(index, f"input {index}")
    if step.op in FOLDS or step.op in SHAPE_ONLY or step.op in REFERENCE_FOLDS:
        return UnsupportedError(step.label, "this operator is supported on constants only",
                                found=", ".join(name for name, operand
                                                in zip(step.input_names, step.inputs, strict=True)
                                                if isinstance(operand, Value)),
                                remedy="export with fixed shapes, so that it is computed at import")
    return unknown_operator(step.label, step.op, OPERATORS, "export it in other operators "
                            "(openane.importers.onnx.OPERATORS has those known), or compute it on the host")
