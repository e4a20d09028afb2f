"""ONNX operators that draw random numbers: the engine computes the same whenever it computes."""

from __future__ import annotations

from collections.abc import Mapping

from openane.errors import UnsupportedError
from openane.importers.onnx.step import Handler, OnnxStep, Operand


def _drawn(step: OnnxStep) -> Operand:
    raise UnsupportedError(step.label, "random numbers are not drawn by a program of the engine", found=step.op,
                           remedy="export the model with its noise as an input, which the caller draws")


OPERATORS: Mapping[str, Handler] = dict.fromkeys(
    ("Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"), _drawn)
