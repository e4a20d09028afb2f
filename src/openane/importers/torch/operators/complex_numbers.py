"""PyTorch's complex numbers, as pairs of tensors.

Rotary embeddings written with `view_as_complex` need their arithmetic, and networks that compute on spectra: Fourier
neural operators, separation of sounds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from openane.graph import Value
from openane.importers.composites import arc_tangent_of
from openane.importers.torch.operators.elementwise import OPERATORS as ELEMENTWISE
from openane.importers.torch.operators.indexing import OPERATORS as INDEXING
from openane.importers.torch.operators.layout import OPERATORS as LAYOUT
from openane.importers.torch.operators.matrices import OPERATORS as MATRICES
from openane.importers.torch.operators.reductions import OPERATORS as REDUCTIONS
from openane.importers.torch.step import COMPLEX, ComplexValue, Handler, Result, TorchStep


def pair(step: TorchStep, name: str) -> ComplexValue:
    """A tensor argument, complex or real, as a pair."""
    return _as_pair(step, step.argument(name), name)


def _as_pair(step: TorchStep, found: Any, name: str) -> ComplexValue:
    if isinstance(found, ComplexValue):
        return found
    if not isinstance(found, Value) and hasattr(found, "is_complex") and found.is_complex():
        return ComplexValue(step.as_value(found.real.contiguous(), name), step.as_value(found.imag.contiguous(), name))
    if isinstance(found, bool | int | float):
        return ComplexValue(step.builder.constant(np.float16(found)), None)
    return ComplexValue(step.matched(step.as_value(found, name), "float"), None)


def imaginary_of(step: TorchStep, pair: ComplexValue) -> Value:
    """The imaginary part, as a constant where it is 0."""
    if pair.imaginary is not None:
        return pair.imaginary
    return step.builder.constant(np.zeros(pair.real.shape, np.float16))


def _as_real(step: TorchStep) -> Result:
    x = pair(step, "self")
    return step.add("stack", values=(x.real, imaginary_of(step, x)), axis=x.real.type.rank)


def _as_complex(step: TorchStep) -> Result:
    x = step.value("self")
    shape, rank = x.shape[:-1], x.type.rank
    parts = [step.add("slice_by_index", part=name, x=x, begin=[0] * (rank - 1) + [i], end=[*shape, i + 1],
                      squeeze_mask=[False] * (rank - 1) + [True]) for i, name in enumerate(("real", "imaginary"))]
    return ComplexValue(*parts)


def _magnitude(step: TorchStep) -> Result:
    x = pair(step, "self")
    squares = [step.add("square", part=name, x=each)
               for name, each in (("real", x.real), ("imaginary", imaginary_of(step, x)))]
    return step.add("sqrt", x=step.add("add", part="sum", x=squares[0], y=squares[1]))


def _angle(step: TorchStep) -> Result:
    x = pair(step, "self")
    return arc_tangent_of(step, imaginary_of(step, x), x.real)


def _of_angle(step: TorchStep) -> Result:
    """A length and an angle."""
    size, angle = step.value("abs"), step.value("angle")
    real, imaginary = (step.add("mul", part=f"{name}_part", x=size, y=step.add(name, part=name, x=angle))
                       for name in ("cos", "sin"))
    return ComplexValue(real, imaginary)


def _product(step: TorchStep) -> Result:
    return _times(step, pair(step, "self"), pair(step, "other"))


def _times(step: TorchStep, x: ComplexValue, y: ComplexValue) -> ComplexValue:
    def times(part: str, a: Value | None, b: Value | None) -> Value | None:
        return None if a is None or b is None else step.add("mul", part=part, x=a, y=b)

    def together(op: str, part: str, a: Value | None, b: Value | None) -> Value | None:
        return a if b is None else b if a is None else step.add(op, part=part, x=a, y=b)

    real = together("sub", "real", times("rr", x.real, y.real), times("ii", x.imaginary, y.imaginary))
    assert real is not None
    return ComplexValue(real, together("add", "imaginary", times("ri", x.real, y.imaginary),
                                       times("ir", x.imaginary, y.real)))


def _sum(op: str) -> Handler:
    def handler(step: TorchStep) -> Result:
        x, y = pair(step, "self"), pair(step, "other")
        real = step.add(op, part="real", x=x.real, y=y.real)
        if x.imaginary is None and y.imaginary is None:
            return ComplexValue(real, None)
        return ComplexValue(real, step.add(op, part="imaginary", x=imaginary_of(step, x), y=imaginary_of(step, y)))
    return handler


def _of_parts(step: TorchStep) -> Result:
    return ComplexValue(step.value("real"), step.value("imag"))


def _conjugate(step: TorchStep) -> Result:
    x = pair(step, "self")
    return ComplexValue(x.real, None if x.imaginary is None else step.add("mul", x=x.imaginary, y=-1.0))


def _real(step: TorchStep, handler: Handler, part: str, **arguments: Any) -> Any:
    """What an operator makes of real numbers in place of some of its arguments."""
    return handler(replace(step, name=f"{step.name}_{part}", kind="float", arguments={**step.arguments, **arguments}))


def _of_both(handler: Handler) -> Handler:
    """What only rearranges elements, or adds them, does so with both parts."""
    def of_both(step: TorchStep) -> Result:
        x = pair(step, "self")
        real = _real(step, handler, "real", self=x.real)
        imaginary = None if x.imaginary is None else _real(step, handler, "imaginary", self=x.imaginary)
        if not isinstance(real, tuple):
            return ComplexValue(real, imaginary)
        return tuple(map(ComplexValue, real, imaginary or (None,) * len(real)))
    return of_both


def _together(handler: Handler) -> Handler:
    """What puts several tensors together."""
    def together(step: TorchStep) -> Result:
        pairs = [_as_pair(step, each, f"tensors{number}") for number, each in enumerate(step.argument("tensors"))]
        return ComplexValue(_real(step, handler, "real", tensors=[each.real for each in pairs]),
                            _real(step, handler, "imaginary", tensors=[imaginary_of(step, each) for each in pairs]))
    return together


def _written(handler: Handler) -> Handler:
    """What writes a tensor into another one."""
    def written(step: TorchStep) -> Result:
        x, source = pair(step, "self"), pair(step, "src")
        return ComplexValue(
            _real(step, handler, "real", self=x.real, src=source.real),
            _real(step, handler, "imaginary", self=imaginary_of(step, x), src=imaginary_of(step, source)))
    return written


def _bilinear(handler: Handler, given: Callable[[Value, Value], Mapping[str, Any]]) -> Handler:
    """Products of two tensors, of which each part of one meets each of the other."""
    def bilinear(step: TorchStep) -> Result:
        x, y = (_as_pair(step, each, f"factor{number}") for number, each in enumerate(_factors(step)))

        def times(part: str, a: Value, b: Value | None) -> Any:
            return None if b is None else _real(step, handler, part, **given(a, b))

        real, cross = times("rr", x.real, y.real), times("ri", x.real, y.imaginary)
        if x.imaginary is None:
            return ComplexValue(real, cross)
        both, other = times("ii", x.imaginary, y.imaginary), times("ir", x.imaginary, y.real)
        return ComplexValue(real if both is None else step.add("sub", part="real", x=real, y=both),
                            other if cross is None else step.add("add", part="imaginary", x=cross, y=other))
    return bilinear


def _factors(step: TorchStep) -> Any:
    """The two tensors of a product."""
    if not step.given("tensors"):
        return [step.argument(name) for name in ("self", "mat2" if step.given("mat2") else "other")]
    found = step.argument("tensors")
    if len(found) != 2:
        raise step.refuse("tensors", len(found), "two complex tensors at a time")
    return found


def _quotient(step: TorchStep) -> Result:
    """By a real number both parts; by a complex one the product with its conjugate, by its square."""
    x, y = pair(step, "self"), pair(step, "other")

    def by(part: str, value: Value | None, divisor: Value) -> Value | None:
        return None if value is None else step.add("real_div", part=part, x=value, y=divisor)

    divisor, top = y.real, x
    if y.imaginary is not None:
        squares = [step.add("square", part=part, x=each) for part, each in (("cc", y.real), ("dd", y.imaginary))]
        divisor = step.add("add", part="square", x=squares[0], y=squares[1])
        top = _times(step, x, ComplexValue(y.real, step.add("mul", part="conjugate", x=y.imaginary, y=-1.0)))
    real = by("real", top.real, divisor)
    assert real is not None
    return ComplexValue(real, by("imaginary", top.imaginary, divisor))


def _chosen(step: TorchStep) -> Result:
    x, y = pair(step, "self"), pair(step, "other")
    handler = ELEMENTWISE["where"]
    return ComplexValue(_real(step, handler, "real", self=x.real, other=y.real),
                        _real(step, handler, "imaginary", self=imaginary_of(step, x), other=imaginary_of(step, y)))


def _negative(step: TorchStep) -> Result:
    x = pair(step, "self")
    return ComplexValue(step.add("mul", part="real", x=x.real, y=-1.0), None if x.imaginary is None
                        else step.add("mul", part="imaginary", x=x.imaginary, y=-1.0))


def _extended(step: TorchStep) -> Result:
    """The imaginary part of a real number beyond the ends is 0."""
    x, number = pair(step, "self"), step.argument("value", 0)

    real, imaginary = complex(number).real, complex(number).imag
    handler = LAYOUT["constant_pad_nd"]
    return ComplexValue(
        _real(step, handler, "real", self=x.real, value=real),
        None if x.imaginary is None and not imaginary
        else _real(step, handler, "imaginary", self=imaginary_of(step, x), value=imaginary))


_MOVES = ("_unsafe_view", "expand", "flip", "permute", "repeat", "reshape", "roll", "select", "slice", "split",
          "split_with_sizes", "squeeze", "transpose", "unsqueeze", "view")

OPERATORS: Mapping[str, Handler] = {COMPLEX + name: handler for name, handler in {
    **{name: _of_both(LAYOUT[name]) for name in _MOVES},
    **{name: _of_both(REDUCTIONS[name]) for name in ("mean", "sum")},
    **{name: _together(LAYOUT[name]) for name in ("cat", "stack")},
    **{name: _written(INDEXING[name]) for name in ("select_scatter", "slice_scatter")},
    **{name: _bilinear(MATRICES[name], lambda a, b: {"self": a, "mat2": b}) for name in ("bmm", "mm")},
    **dict.fromkeys(("_to_copy", "alias", "clone", "detach", "resolve_conj"), lambda step: pair(step, "self")),
    **dict.fromkeys(("_conj", "_conj_physical", "conj_physical"), _conjugate),
    "abs": _magnitude, "add": _sum("add"), "angle": _angle, "complex": _of_parts, "constant_pad_nd": _extended,
    "copy": _written(ELEMENTWISE["copy"]), "div": _quotient,
    "einsum": _bilinear(MATRICES["einsum"], lambda a, b: {"tensors": [a, b]}),
    "imag": lambda step: imaginary_of(step, pair(step, "self")),
    "matmul": _bilinear(MATRICES["matmul"], lambda a, b: {"self": a, "other": b}), "mul": _product, "neg": _negative,
    "polar": _of_angle, "real": lambda step: pair(step, "self").real, "sub": _sum("sub"),
    "view_as_complex": _as_complex, "view_as_real": _as_real, "where": _chosen,
}.items()}
