"""PyTorch operators that give whole numbers, and what is left of a quotient."""

from __future__ import annotations

from collections.abc import Mapping

from openane.graph import Value
from openane.importers.torch.step import Handler, Result, TorchStep


def truncated_quotient(step: TorchStep) -> Result:
    """Towards zero: the quotient of the magnitudes, with the sign of both."""
    x, y = step.number("self"), step.other("other", step.kind)
    size = step.add("abs", part="divisor", x=y) if isinstance(y, Value) else abs(y)
    whole = step.add("floor_div", part="whole", x=step.add("abs", part="magnitude", x=x), y=size)
    signed = step.add("mul", part="signed", x=whole, y=step.add("sign", part="sign", x=x))
    if isinstance(y, Value):
        return step.add("mul", x=signed, y=step.add("sign", part="other_sign", x=y))
    return signed if y > 0 else step.add("mul", x=signed, y=-1)


def _truncated(step: TorchStep) -> Result:
    """Towards zero: the sign on the floor of the magnitude."""
    x = step.number("self")
    whole = step.add("floor", part="whole", x=step.add("abs", part="magnitude", x=x))
    return step.add("mul", x=whole, y=step.add("sign", part="sign", x=x))


def _truncated_remainder(step: TorchStep) -> Result:
    """What is left of the magnitude, with the sign of the first operand."""
    x, y = step.number("self"), step.other("other", step.kind)
    size = abs(y) if not isinstance(y, Value) else step.add("abs", part="divisor", x=y)
    left = step.add("mod", part="left", x=step.add("abs", part="magnitude", x=x), y=size)
    return step.add("mul", x=left, y=step.add("sign", part="sign", x=x))


def _round(step: TorchStep) -> Result:
    """To the nearest whole number, or multiple of a power of ten."""
    x, decimals = step.number("self"), int(step.argument("decimals", 0))
    if not decimals:
        return step.add("round", x=x)
    scaled = step.add("mul", part="scaled", x=x, y=10.0 ** decimals)
    return step.add("mul", x=step.add("round", part="whole", x=scaled), y=10.0 ** -decimals)


OPERATORS: Mapping[str, Handler] = {"fmod": _truncated_remainder, "round": _round, "trunc": _truncated}
