"""whole_norm: a norm of rows of whole steps, in whole steps of its result, beside WHOLE.

WHOLE + round(gain * (x - mean) / sqrt(variance + epsilon) + offset) of x [rows, height, width], whole numbers, each row
on its own, or gain * x / sqrt(mean square + epsilon) + offset where it is not `centred`; the root is that of `spread`,
whole numbers [rows, 1, 1], where these are given. Where it is not `whole`, x are any numbers. Not one of MIL's own
operations: it is what whole_sums makes of norms whose result is whole steps, and whose operand is, or is an input.

Numbers between two tasks are fp16, and a mean and a root of fp16 make another step of one result in two hundred. Here
the reciprocal root is the sum of two numbers of fp16, and nothing is rounded before the result:

- x less the whole number nearest to the mean is d, which fp16 holds; m is the mean of d.
- r is the reciprocal root of the variance, one number of fp16. It is the sum of two of few digits, whose products with
  d fp16 holds, as good as. The sum of the squares of these shows how far r is off, and r times that is what it lacks.
- gain is the sum of numbers of few digits, whose products with d fp16 holds as well. The neural engine multiplies them
  by r, and gain * d by what r lacks, and adds all of a row up in its accumulator: a batch of products of two tensors.

Numbers that are not whole are whole ones of a size that suits their row, and what these leave (number_rows), which is
multiplied by gain and r as well.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from openane.engine import Binary, Post, Root
from openane.graph import Node, Operand, TensorType
from openane.ops.gradients import stopped
from openane.ops.halves import SMALLEST, half
from openane.ops.lowering import ELEMENT, Lowering, Tensor
from openane.ops.number_rows import CELLS, LESS, NumberRows, number_rows, unit_of
from openane.ops.operands import FLOATS, Arguments, refusal
from openane.ops.rounding import WHOLE
from openane.ops.rules import ENGINE
from openane.ops.spec import Op, Parameter
from openane.ops.stages import Stages
from openane.ops.step_rows import StepRows, centred_rows
from openane.ops.step_weights import two_halves
from openane.ops.weights import numbers
from openane.ops.written_steps import two_factors
from openane.record_classes import dataclass

NAME = "whole_norm"
PARAMETERS = (Parameter("x"), Parameter("gain", const=True), Parameter("offset", const=True, default=0.0),
              Parameter("epsilon", const=True, default=1e-5, kind="number"),
              Parameter("centred", const=True, default=True, kind="bool"), Parameter("spread", default=None),
              Parameter("whole", const=True, default=True, kind="bool"))
RAISED = 32.0
"""Roots are held as so many times what they are, and gains as a share: deviations are some tens of steps."""
DOWN = RAISED ** -2
COARSE = 192.0
"""Adding it to a raised root leaves digits of which products with up to eight deviations are whole in fp16."""
DIGITS = 3
"""Digits of a number whose product with 255 steps fp16 holds."""
PIECES = 3
"""Of how many numbers a gain is the sum at most; what rounds the product with the last is 2^-20 of it."""
LARGEST_GAIN = 2048.0
FURTHEST = 256.0
"""Steps from 0 of results that matter: those beyond are held within bounds."""
LEAST = 2.0 ** -12
"""What whole numbers have added to them, so that the root of 0 is a number that powers of two may be multiplied by."""
SHARE = 3
"""The part of L2 that may be taken by what is summed at a time."""


@dataclass(frozen=True, slots=True)
class _Form:
    """Rows and what their roots are: so many times the reciprocal deviation, and what added to one leaves digits of
    which products with d are whole in fp16. `made`: of what is no whole number."""

    rows: StepRows
    raised: float
    coarse: float
    made: NumberRows | None = None

    @property
    def down(self) -> float:
        """Squares of what is raised times this are those of what is not."""
        return self.raised ** -2


def _infer(operands: Mapping[str, Operand]) -> tuple[TensorType, ...]:
    arguments = Arguments(NAME, PARAMETERS, operands)
    x = arguments.tensor("x", FLOATS, (3, 3))
    for name in ("gain", "offset"):
        vector = arguments.constant(name)
        if isinstance(vector, np.ndarray) and not _spreads(vector, x.shape):
            raise refusal(NAME, name, f"must broadcast to {list(x.shape)}", list(vector.shape))
        if isinstance(vector, np.ndarray) and not np.abs(vector).max(initial=0.0) <= LARGEST_GAIN:
            raise refusal(NAME, name, f"must be at most {LARGEST_GAIN:g}", float(np.abs(vector).max()))
    if arguments.given("spread") and arguments.tensor("spread", (x.dtype,)).shape != (x.shape[0], 1, 1):
        raise refusal(NAME, "spread", f"must have shape {[x.shape[0], 1, 1]}", list(arguments.tensor("spread").shape))
    if not arguments.number("epsilon") >= 0:
        raise refusal(NAME, "epsilon", "must not be below 0", arguments.number("epsilon"))
    return (x.type,)


def _spreads(vector: np.ndarray, shape: Sequence[int]) -> bool:
    return vector.ndim in (0, 3) and all(extent in (1, whole) for extent, whole in zip(vector.shape, shape,
                                                                                      strict=False))


def _reference(*, x: np.ndarray, gain: np.ndarray, offset: np.ndarray, epsilon: np.ndarray,
               centred: np.ndarray, spread: np.ndarray | None, whole: np.ndarray) -> tuple[np.ndarray, ...]:
    wide = x.astype(np.float64)
    wide = wide - wide.mean((1, 2), keepdims=True) if bool(centred) else wide
    with np.errstate(invalid="ignore", divide="ignore"):
        square = np.square(wide).mean((1, 2), keepdims=True) + float(epsilon) if spread is None else \
            spread.astype(np.float64)
        normal = wide / np.sqrt(square)
        return ((WHOLE + np.rint(normal * gain + offset)).astype(x.dtype),)


def _lower(node: Node, lowering: Lowering) -> None:
    arguments = Arguments(NAME, PARAMETERS, node.operands)
    x = lowering.with_last(lowering.compact(lowering.read(node["x"])), 2)
    gain, offset = (np.zeros(()) if value is None else numbers(value).astype(np.float64)
                    for value in (node["gain"], node.get("offset")))
    form = _form(arguments, lowering, x, gain, offset)
    gain, rows = gain / form.raised, form.rows
    pieces, addends = _pieces(gain), two_halves(offset.reshape(offset.shape or (1, 1, 1))) if offset.any() else ()
    spread = lowering.read(node["spread"]) if arguments.given("spread") else None
    rests = [] if rows.rest is None else [gain]
    coefficients = _coefficients(form, spread, arguments.number("epsilon"), len(pieces) + len(rests), len(addends))
    constants = addends if rows.mean is None else [*addends, gain]
    result = lowering.scratch(x.shape)
    target = result.seen(result.offset, (x.shape[0], 1, *x.shape[1:]), (result.strides[0], 0, *result.strides[1:]))
    planes = len(constants) + len(pieces) + len(rests) + 1
    most = lowering.limits.l2_size // SHARE // (ELEMENT * planes * prod(x.shape[1:]))
    for start in range(0, x.shape[0], max(1, most)):
        count = min(max(1, most), x.shape[0] - start)
        part = StepRows(lowering, rows.d.part(0, start, count), rows.mean,
                        None if rows.rest is None else rows.rest.part(0, start, count))
        summed = _summed(part, *([_of_rows(each, start, count) for each in arrays]
                                 for arrays in (constants, pieces, rests, [gain])))
        lowering.products(target.part(0, start, count), coefficients.part(0, start, count).transpose((0, 2, 1)), summed,
                          Post(bias=WHOLE))
    lowering.bind(node.output, result)


def _form(arguments: Arguments, lowering: Lowering, x: Tensor, gain: np.ndarray, offset: np.ndarray) -> _Form:
    """Rows, whole as they are or made so."""
    centred, given = arguments.flag("centred"), arguments.given("spread")
    if arguments.flag("whole"):
        return _Form(centred_rows(lowering, x) if centred else StepRows(lowering, x, None), RAISED, COARSE)
    unit = unit_of(np.zeros(()) if given else gain, offset, FURTHEST, prod(x.shape[1:]))
    made = number_rows(lowering, x, centred, SMALLEST if given else arguments.number("epsilon"), unit)
    raised = made.unit / CELLS
    if given and gain.any():
        raised *= 2.0 ** round(math.log2(float(np.abs(gain).max()) / RAISED))
    return _Form(made.rows, raised, COARSE / 2, made)


def _of_rows(array: np.ndarray, start: int, count: int) -> np.ndarray:
    """What an array that broadcasts to all rows is for some."""
    return array[start:start + count] if array.ndim and len(array) > 1 else array


def _coefficients(form: _Form, spread: Tensor | None, epsilon: float, pieces: int, addends: int) -> Tensor:
    """By what a row of `_summed` is multiplied: ones, less the raised root times the mean, the root for each piece of
    the gain, and what it lacks."""
    rows = form.rows
    lowering, centred = rows.lowering, int(rows.mean is not None)
    first = addends + centred
    made = rows.cells(first + pieces + 1)
    root, lacks = made.part(1, first, 1), made.part(1, first + pieces, 1)
    if addends:
        ones = made.part(1, 0, addends)
        lowering.elementwise(ones, lowering.constant(np.ones((1, addends, 1), np.float16)).expand(ones.shape))
    if spread is not None:
        _given(form, spread, root, lacks)
    elif form.made is not None:
        form.made.scaled(form.made.root, root, form.raised * LESS)
    elif rows.mean is None:
        lowering.reduce(root, rows.d, (1, 2), final_scale=rows.share * form.down, epsilon=epsilon * form.down,
                        root=Root.RSQRT, square=True)
    else:
        rows.reduced(rows.mean.expand(rows.d.shape), rows.d, root, Binary.SQUARE_SUM, negate=True,
                     final_scale=rows.share * form.down, epsilon=epsilon * form.down, root=Root.RSQRT)
    if rows.mean is not None:
        lowering.elementwise(made.part(1, first - 1, 1), root, rows.mean, Binary.MULTIPLY, scale=-1.0)
    if spread is None:
        _lacking(form, made.part(1, first - centred, 1 + centred), lacks, epsilon)
    if pieces > 1:
        again = made.part(1, first + 1, pieces - 1)
        lowering.elementwise(again, root.expand(again.shape))
    return made


def _given(form: _Form, spread: Tensor, root: Tensor, lacks: Tensor) -> None:
    """The raised root of whole numbers v, and what it lacks: r * (1 - r * (p + e)) / 2, where p is r * v in fp16 and e
    what that lacks."""
    rows = form.rows
    lowering, known, others = rows.lowering, rows.cells(3), rows.cells(2)
    down, least = (form.down, SMALLEST) if form.made is None else (1.0, LEAST)
    r, p, rest = (known.part(1, place, 1) for place in range(3))
    lowering.elementwise(others.part(1, 0, 1), spread)
    minus = others.part(1, 1, 1)
    lowering.elementwise(minus, lowering.constant(np.full((1, 1, 1), -1, np.float16)).expand(minus.shape))
    lowering.reduce(r, spread, (1, 2), final_scale=down, epsilon=least, root=Root.RSQRT)
    lowering.elementwise(p, r, spread, Binary.MULTIPLY)
    rows.reduced(known.part(1, 0, 2), others, rest, Binary.MULTIPLY)
    share = rows.cells(1)
    two = known.part(1, 1, 2)
    rows.reduced(two, r.expand(two.shape), share, Binary.MULTIPLY, final_scale=-down / 2, epsilon=0.5)
    if form.made is None:
        lowering.elementwise(lacks, share, r, Binary.MULTIPLY)
        lowering.elementwise(root, r)
        return
    form.made.scaled(r, root, form.raised)
    lowering.elementwise(lacks, share, root, Binary.MULTIPLY)


def _lacking(form: _Form, known: Tensor, target: Tensor, epsilon: float) -> None:
    """What the root of a row lacks, r * (1 - r^2 * (mean square of d - m^2 + epsilon)) / 2: a step of Newton's method.
    `known`: less the raised root times the mean where norms are centred, and the root."""
    rows = form.rows
    lowering, centred = rows.lowering, known.shape[1] - 1
    root = known.part(1, centred, 1)
    coarse, fine = rows.cells(1), rows.cells(1)
    single, whole = Stages(lowering, root.shape), Stages(lowering, rows.d.shape)
    single.planar(single.planar(root, bias=form.coarse), bias=-form.coarse, target=coarse)
    single.planar(root, coarse, subtract=True, target=fine)
    terms = rows.cells(centred + 2)
    first, left = whole.times(rows.d, coarse), whole.times(rows.d, fine)
    if rows.rest is not None:
        left = whole.planar(left, whole.times(rows.rest, root))
    rows.reduced(first, left, terms.part(1, centred + 1, 1), Binary.SQUARE_SUM,
                 final_scale=-rows.share * form.down / 2, epsilon=0.5)
    weight = -epsilon / 2
    if form.made is None:
        lowering.elementwise(terms.part(1, 0, centred + 1), known, known, Binary.MULTIPLY, scale=form.down)
    else:
        factors, weight = two_factors(epsilon * LESS ** 2) or (0.0, 0.0), -0.5
        lowering.elementwise(terms.part(1, 0, 1), form.made.root, form.made.root, Binary.MULTIPLY,
                             pre_scale=factors[0], scale=factors[1])
    weights = np.reshape([*[0.5] * centred, weight, 1.0], (1, -1, 1))
    share = rows.cells(1)
    rows.reduced(terms, lowering.constant(weights.astype(np.float16)).expand(terms.shape), share, Binary.MULTIPLY)
    lowering.elementwise(target, share, root, Binary.MULTIPLY)


def _summed(rows: StepRows, constants: Sequence[np.ndarray], pieces: Sequence[np.ndarray],
            rests: Sequence[np.ndarray], lacking: Sequence[np.ndarray]) -> Tensor:
    """What a row is the sum of, times `_coefficients`: constants, d times pieces, what whole numbers leave times
    others, and d times what is multiplied by what the root lacks."""
    lowering, (count, height, width) = rows.lowering, rows.d.shape
    factors = [*((rows.d, each) for each in pieces), *((rows.rest or rows.d, each) for each in rests),
               *((rows.d, each) for each in lacking)]
    whole = lowering.scratch((count, len(constants) + len(factors), height, width))
    if constants:
        target = whole.part(1, 0, len(constants))
        lowering.elementwise(target, lowering.constant(_stacked(constants)).expand(target.shape))
    for place, (source, factor) in enumerate(factors, len(constants)):
        target = whole.at(1, place)
        if factor.size == 1:
            lowering.elementwise(target, source, scale=half(float(factor.flat[0])))
        else:
            lowering.elementwise(target, source, lowering.constant(factor.astype(np.float16)), Binary.MULTIPLY)
    return whole


def _stacked(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """Arrays that broadcast to [rows, height, width], one below the other in each row, as fp16."""
    return np.stack(np.broadcast_arrays(*(np.reshape(each, each.shape or (1, 1, 1)) for each in arrays)),
                    1).astype(np.float16)


def _pieces(gain: np.ndarray) -> list[np.ndarray]:
    """Numbers of few digits whose sum a gain is."""
    made: list[np.ndarray] = []
    left = gain.reshape(gain.shape or (1, 1, 1))
    while left.any() and len(made) < PIECES - 1:
        mantissa, exponent = np.frexp(left)
        made.append(np.ldexp(np.rint(np.ldexp(mantissa, DIGITS)), exponent - DIGITS))
        left = left - made[-1]
    return [*made, left] if left.any() or not made else made


OPS = (Op(NAME, PARAMETERS, _infer, _reference, rules=ENGINE, lower=_lower, gradient=stopped, rounds=True,
          normalises=True),)
