"""Numbers that a PyTorch program rounds to a scale it measures while it runs: they stay as they are.

The rounding serves integer hardware, and the engine multiplies fp16 (as in ONNX, see importers.onnx.dynamic). Such
integers are x / scale + offset for an x of the graph, a scale nobody computes, and a known offset. Products with known
integers keep that form, so does what is added; where the scale is multiplied back and no offset is left, x is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from openane.errors import UnsupportedError
from openane.graph import Value
from openane.importers.torch.operators.quantized import DEQUANTIZE, QUANTIZE
from openane.importers.torch.step import (
    DEQUANTISE,
    UNROUNDED,
    UNROUNDED_ALONE,
    Handler,
    MeasuredScale,
    Result,
    TorchStep,
    Unrounded,
    as_numpy,
)


def _measured(step: TorchStep) -> Result:
    """A scale and a zero point."""
    return MeasuredScale(), MeasuredScale()


def _quantize(step: TorchStep) -> Result:
    scale = step.argument("scale", step.argument("scales"))
    x = step.value("input")
    if not isinstance(scale, MeasuredScale):
        raise _otherwise(step)
    return Unrounded(step.cast(x, "fp16"), scale)


def _dequantize(step: TorchStep) -> Result:
    found, scale = step.argument("input"), step.argument("scale", step.argument("scales"))
    if not isinstance(found, Unrounded) or (found.scale is not None and found.scale is not scale):
        raise _otherwise(step)
    return found.value


def _otherwise(step: TorchStep) -> UnsupportedError:
    return UnsupportedError(step.label, UNROUNDED_ALONE, remedy=DEQUANTISE)


def _laid_out(step: TorchStep) -> Result:
    """Integers, or a scale, in another shape or type."""
    found = step.argument("self")
    if isinstance(found, MeasuredScale):
        return found
    if not isinstance(found, Unrounded) or (np.ndim(found.offset) and found.value.shape != step.shape):
        raise _otherwise(step)
    return replace(found, value=step.reshaped(found.value, step.shape))


def _moved(sign: int) -> Handler:
    """Integers to which known ones are added, or from which they are taken."""
    def handler(step: TorchStep) -> Result:
        found, other = step.argument("self"), step.argument("other")
        if not isinstance(found, Unrounded) or isinstance(other, Value | Unrounded | MeasuredScale):
            raise _otherwise(step)
        offset = found.offset + sign * step.argument("alpha", 1) * _whole(other)
        return replace(found, offset=offset if offset.any() else 0.0)
    return handler


def _product(step: TorchStep) -> Result:
    found, other = step.argument("self"), step.argument("mat2")
    if not isinstance(found, Unrounded) or not hasattr(other, "detach"):
        raise _otherwise(step)
    right = _whole(other)
    offset = np.broadcast_to(found.offset, found.value.shape) @ right
    return Unrounded(step.add("matmul", x=found.value, y=right.astype(np.float16)), found.scale, offset)


def _whole(known: object) -> np.ndarray:
    return np.asarray(as_numpy(known) if hasattr(known, "detach") else known, np.float64)


def _scaled(step: TorchStep) -> Result:
    """Integers times their scale."""
    pair = (step.argument("self"), step.argument("other"))
    found = next((each for each in pair if isinstance(each, Unrounded)), None)
    if found is None or not any(each is found.scale for each in pair) or np.any(found.offset):
        raise _otherwise(step)
    return found.value


_MEASURING = (*(f"quantized_decomposed::{name}" for name in (
    "choose_qparams", "choose_qparams_symmetric", "choose_qparams_per_token", "choose_qparams_per_token_asymmetric",
    "_choose_qparams_per_token_asymmetric_impl")), "torchao::choose_qparams_affine")
_AMONG: Mapping[str, Handler] = {
    **dict.fromkeys(QUANTIZE, _quantize), **dict.fromkeys(DEQUANTIZE, _dequantize), "_int_mm": _product,
    "_to_copy": _laid_out, "add": _moved(1), "mul": _scaled, "reshape": _laid_out, "sub": _moved(-1), "view": _laid_out}
OPERATORS: Mapping[str, Handler] = {**dict.fromkeys(_MEASURING, _measured),
                                    **{UNROUNDED + name: handler for name, handler in _AMONG.items()}}
