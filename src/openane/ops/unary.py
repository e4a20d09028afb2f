"""Functions of one tensor, element by element: what makes an operation of a record (spec.Unary).

A post stage computes activation(scale * (x + bias)) with ReLU or a 33-knot table; whatever has one can also be fused
behind a convolution or product. The rest is composed of table and planar operations.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from openane.chips import Limits
from openane.engine import Activation
from openane.graph import Node, Operand, TensorType, Value
from openane.ops import blocks, get_op
from openane.ops.accuracy import EXACT
from openane.ops.fewer import elementwise
from openane.ops.gradients import Backward, only, product, stopped
from openane.ops.halves import LARGEST, half
from openane.ops.lowering import Lowering
from openane.ops.operands import FLOATS, Arguments
from openane.ops.rules import ENGINE, MOVED
from openane.ops.slopes import Terms
from openane.ops.spec import Op, Parameter, Settings, Stage, Unary, Upstream
from openane.ops.stages import Stages


def setting(name: str, default: float | None = None) -> Parameter:
    """A constant number of a function."""
    return Parameter(name, const=True) if default is None else Parameter(name, const=True, default=default)


ALPHA, BETA = setting("alpha"), setting("beta")
EXPONENTS = (-126, 126)
"""Powers of two that fp32, in which references compute, has numbers for."""
HELD = "exponent"
"""By which power of two x and the result are held: 2^exponent * function(x / 2^exponent)."""
SMALL = "small_results"
"""Whether results much smaller than the largest there is are to keep their digits."""


def unary_op(unary: Unary) -> Op:
    """The operation that is a function of one tensor."""
    parameters = _parameters(unary)
    return Op(unary.name, parameters, partial(_infer, unary=unary), partial(_reference, unary=unary),
              rules=(engine_integers, *MOVED) if unary.integers else (engine_constants, *ENGINE),
              lower=partial(_lower, unary=unary), post=partial(_post, unary=unary), evidence=unary.evidence,
              gradient=stopped if unary.slope is None else partial(_gradient, unary=unary), unary=unary,
              fewer=elementwise)


def record(name: str) -> Unary:
    """The record of the function MIL calls `name`."""
    found = get_op(name).unary
    assert found is not None, f"{name} is a function of one tensor"
    return found


def engine_integers(node: Node, limits: Limits) -> bool:
    """Integers are held as fp16, exact from -2048 to 2048; abs and sign stay within that, exp2 and square need not."""
    return node["x"].dtype != "int32" or record(node.op).keeps_integers


def engine_constants(node: Node, limits: Limits) -> bool:
    """The constants of the function must be finite in fp16: from -65504 to 65504."""
    unbounded = record(node.op).unbounded
    numbers = [float(value.array()) for name, value in node.operands.items()
               if isinstance(value, Value) and value.constant and value.dtype != "string" and name != "x"
               and name not in unbounded]
    return all(abs(half(number)) <= LARGEST for number in numbers)


def _infer(operands: Mapping[str, Operand], *, unary: Unary) -> tuple[TensorType, ...]:
    x = _arguments(unary, operands).tensor("x", (*FLOATS, "int32") if unary.integers else FLOATS)
    stated = settings(unary, operands)
    if HELD in operands:
        _arguments(unary, operands).integer(HELD, *EXPONENTS)
    if unary.check is not None:
        unary.check(stated)
    return (x.type,)


def _arguments(unary: Unary, operands: Mapping[str, Operand]) -> Arguments:
    return Arguments(unary.name, _parameters(unary), operands)


def _parameters(unary: Unary) -> tuple[Parameter, ...]:
    held = (Parameter(HELD, const=True, default=None, kind="int32"),) if unary.held is not None else ()
    small = (Parameter(SMALL, const=True, default=None, kind="bool"),) if unary.small is not None else ()
    return (Parameter("x"), *unary.parameters, *held, *small)


def exponent_of(node: Node) -> int:
    """By which power of two x and the result of a function are held; 0 for most."""
    stated = node.get(HELD)
    return 0 if stated is None else int(stated.array())


def keeps_small(node: Node) -> bool:
    """Whether small results of a function keep their digits."""
    stated = node.get(SMALL)
    return stated is not None and bool(stated.array())


def settings(unary: Unary, operands: Mapping[str, Operand]) -> Settings:
    """The constant operands beside x, as numbers and strings. GraphError where one does not fit."""
    arguments = _arguments(unary, operands)
    return {parameter.name: arguments.text(parameter.name, parameter.choices) if parameter.kind == "string" else
            arguments.number(parameter.name) for parameter in unary.parameters}


def _reference(*, unary: Unary, x: np.ndarray, exponent: np.ndarray | None = None,
               small_results: np.ndarray | None = None, **settings: Any) -> tuple[np.ndarray, ...]:
    if exponent is not None:
        made, = _reference(unary=unary, x=np.ldexp(x, -int(exponent)), **settings)
        return (np.ldexp(made, int(exponent)),)
    if unary.bound == EXACT and x.dtype == np.float32:  # the result is one of the numbers, which float64 has as well
        return (np.asarray(unary.function(x, **settings)).astype(np.float32, copy=False),)
    if unary.single is not None and x.dtype == np.float32:
        return (blocks.elementwise(partial(unary.single, **settings), x, np.float32),)
    return (blocks.elementwise(partial(unary.function, **settings), x),)


def _post(node: Node, lowering: Lowering, *, unary: Unary) -> Stage | None:
    """The function as a post stage, or None."""
    composed = _closely(lowering, unary) or exponent_of(node) or keeps_small(node)
    return None if composed else stage(lowering, unary, settings(unary, node.operands))


def stage(lowering: Lowering, unary: Unary, stated: Settings) -> Stage | None:
    """A function's post stage for a graph, or None: Apple's, or one that errs less."""
    made = unary.fitted if unary.fitted is not None and lowering.close_functions else unary.stage
    return None if made is None else made(stated)


def _closely(lowering: Lowering, unary: Unary) -> bool:
    return unary.closer is not None and lowering.close_functions


def _lower(node: Node, lowering: Lowering, *, unary: Unary) -> None:
    """One pass-through where the function is a post stage, with the ReLU that alone reads a multiple, else its
    composition."""
    source, made = lowering.read(node["x"]), _post(node, lowering, unary=unary)
    if made is not None:
        post, table = made
        value, clamped = lowering.relu_behind(node) if post.activation is Activation.NONE else (node.output, False)
        lowering.copy(source, lowering.result(value), replace(post, activation=Activation.RELU) if clamped else post,
                      table)
        return
    target = lowering.result(node.output)
    if exponent_of(node):
        assert unary.held is not None, f"{unary.name} has no exponent"
        unary.held(Stages(lowering, target.shape), target, source, settings(unary, node.operands), exponent_of(node))
        return
    compose = unary.small if keeps_small(node) else unary.closer if _closely(lowering, unary) else unary.compose
    assert compose is not None, f"{unary.name} is a post stage or composed"
    compose(Stages(lowering, target.shape), target, source, settings(unary, node.operands))


def _gradient(node: Node, upstream: Upstream, backward: Backward, *, unary: Unary) -> Mapping[str, Operand]:
    """Upstream times the derivative."""
    assert unary.slope is not None
    terms, x, y, exponent = Terms(backward), node["x"], node.output, exponent_of(node)
    if exponent:
        x, y = (terms.line(value, 2.0 ** -exponent, 0.0) for value in (x, y))
    slope = unary.slope(terms, x, y, settings(unary, node.operands))
    return {"x": product(backward, only(upstream), slope)}
