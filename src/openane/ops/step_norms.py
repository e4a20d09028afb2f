"""Norms of quantised tensors, and such that are quantised again, with less that is rounded to fp16 on the way.

One of rows to steps, of steps or of an input's numbers, is a whole_norm, in which nothing is. Of others that read steps
the operand is exact, and what they do last is rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from openane.graph import Node, Value, as_stated
from openane.ops import arguments, whole_norm
from openane.ops.batch_norm import constants
from openane.ops.rewriter import Rewriter
from openane.ops.step_operands import StepOperands
from openane.ops.step_pairs import Known, largest
from openane.ops.weights import numbers, rounded, scale_of
from openane.ops.written_steps import in_fp32, number, stated_of
from openane.record_classes import dataclass
from openane.rounding import round_up

NORMS = ("instance_norm", "layer_norm", "rms_norm")
CENTRED = {"layer_norm": True, "rms_norm": False}
"""What has a form in whole steps, and whether it is of x less its mean."""
FURTHEST = 256
"""Steps from 0 whose products with numbers of few digits fp16 holds."""
MOST_ROWS, LONGEST, LINE = 2048, 8192, 32
"""Rows that have such a form, of how many numbers, and what lines of these may be filled up to a multiple of."""
MOST = 1 << 22
"""Of how many numbers such a norm is at most: more are hundreds of tasks."""
LARGEST_EPSILON = 1e4
Sized = Callable[[Value, float], Value]
"""A value's steps as numbers, a step so large."""


@dataclass(frozen=True, slots=True)
class StepNorm:
    """Nodes that make a norm's steps beside WHOLE, and these."""

    nodes: tuple[Node, ...]
    sums: Value


def step_norm(node: Node, units: float, among: StepOperands) -> StepNorm | None:
    """A norm of rows, of steps or of an input's numbers, whose result is taken `units` times and becomes whole steps;
    with the gain and offset of channels that a batch norm behind it has. None for other nodes."""
    norm = among.producers.get(id(node["x"])) if node.op == "batch_norm" else node
    if norm is None or norm.op not in CENTRED:
        return None
    steps, shape = among.known(norm["x"]), rows_over(norm["x"], _axes(norm))
    vectors = _vectors(norm) if norm is node else _of_channels(node, norm)
    if shape is None or vectors is None or not exact(norm["x"], among):
        return None
    gain, offset = (vector * units for vector in vectors)
    epsilon = _epsilon(norm) / size(steps) ** 2
    if max(np.abs(gain).max(), np.abs(offset).max()) > whole_norm.LARGEST_GAIN or epsilon > LARGEST_EPSILON:
        return None
    x = norm["x"]
    return of_rows("whole_norm", x, shape, node, among, gain=in_fp32("gain", gain),
                   offset=in_fp32("offset", offset), epsilon=number("epsilon", epsilon), centred=CENTRED[norm.op])


def exact(x: Value, among: StepOperands) -> bool:
    """Whether numbers are what they are meant to be, and can be normalised as that: those of an input, or steps that
    are not too many. Other results in fp16 were rounded themselves, and the norm of these gains little."""
    steps = among.known(x)
    return among.given(x) if steps is None else few(steps)


def few(steps: Node | None) -> bool:
    """Whether rows of what a nearest_steps makes have forms in whole steps; of numbers that none makes, they have."""
    return steps is None or largest(steps) <= FURTHEST


def size(steps: Node | None) -> float:
    """That of a step; numbers that are none are taken as they are."""
    return 1.0 if steps is None else stated_of(steps, "scale")


def of_rows(op: str, x: Value, shape: tuple[int, int, int], node: Node, among: StepOperands,
            spread: Value | None = None, **operands: Any) -> StepNorm:
    """An operation on rows of x, a `shape` of steps or numbers, in place of a node; `spread` are steps, one to a
    row."""
    rewriter = Rewriter(node, among.names, node.source)
    if spread is not None:
        operands["spread"] = rewriter.single("reshape", x=among.times(spread, 1), shape=[shape[0], 1, 1])
    if among.known(x) is None:
        operands["whole"] = False
    else:
        x = among.times(x, 1)
    made = rewriter.single(op, x=rewriter.single("reshape", x=x, shape=list(shape)), **operands)
    made = rewriter.single("reshape", x=made, shape=list(node.output.shape))
    return StepNorm(rewriter.made, made)


def rows_over(x: Value, axes: Sequence[int]) -> tuple[int, int, int] | None:
    """The shape [rows, height, width] of what is summed over these axes, row by row; None where rows lie otherwise, or
    are too many."""
    kept = x.type.rank - len(axes)
    rows, height, width = math.prod(x.shape[:kept]), math.prod(x.shape[kept:-1]), x.shape[-1]
    if not axes or sorted(axes) != list(range(kept, x.type.rank)) or rows > MOST_ROWS or x.type.elements > MOST:
        return None
    return (rows, height, width) if height * width > 1 and height * round_up(width, LINE) <= LONGEST else None


def _axes(norm: Node) -> tuple[int, ...]:
    """What a norm normalises over."""
    rank = norm["x"].type.rank
    axes = arguments(norm).axes("axes", rank)
    return tuple(range(rank)) if axes is None else axes


def _epsilon(norm: Node) -> float:
    given = norm.get("epsilon")
    return arguments(norm).number("epsilon") if given is None else float(numbers(given))


def _vectors(norm: Node) -> tuple[np.ndarray, np.ndarray] | None:
    """A norm's gain and offset beside rows [rows, height, width]; None where they are not constants."""
    given = [(norm.get(name), default) for name, default in (("gamma", 1.0), ("beta", 0.0))]
    if any(vector is not None and not vector.constant for vector, _ in given):
        return None
    gain, offset = (np.full((1, 1, 1), default) if vector is None else
                    numbers(vector).astype(np.float64).reshape(1, -1, vector.shape[-1]) for vector, default in given)
    return gain * scale_of(arguments(norm)), offset


def _of_channels(node: Node, norm: Node) -> tuple[np.ndarray, np.ndarray] | None:
    """Gain and offset of the batch norm behind a norm that has none; None where it is of other dimensions."""
    if any(name in norm.operands for name in ("gamma", "beta")) or node.computed() != (norm.output,) \
            or len(_axes(norm)) != norm.output.type.rank - 2:
        return None
    images, channels = node.output.shape[:2]
    gain, offset = (np.tile(np.broadcast_to(each, (channels,)).reshape(-1, 1, 1), (images, 1, 1))
                    for each in constants(as_stated(node)))
    made = gain * scale_of(arguments(norm)), offset
    return made if all(np.isfinite(each).all() for each in made) else None


def norm_of_steps(node: Node, known: Known, sized: Sized) -> Node:
    """A norm reads steps as numbers that fp16 holds as they are, the size of one a power of two: what it makes of them
    is the same, but for its epsilon. Other nodes as they are."""
    steps = known(node["x"]) if node.op in NORMS else None
    size = 0.0 if steps is None else abs(stated_of(steps, "scale"))
    if not size or node.get("epsilon") is None:
        return node
    power = 2.0 ** round(math.log2(size))
    epsilon = number("epsilon", float(numbers(node["epsilon"])) * (power / size) ** 2)
    return replace(node, operands={**node.operands, "x": sized(node["x"], power), "epsilon": epsilon})


def gain_apart(node: Node, name: str) -> tuple[Node, Node] | None:
    """A layer norm without what it does last, of the name given, and a node that does that: its offset is added, or,
    where it has none, its gain multiplied. None for other nodes."""
    last = next((each for each in ("beta", "gamma") if each in node.operands), None)
    if node.op != "layer_norm" or last is None:
        return None
    result, vector = node.output, node[last]
    axes = arguments(node).axes("axes", result.type.rank)
    shape = tuple(extent if axes is None or d in axes else 1 for d, extent in enumerate(result.shape))
    normal = replace(node, operands={key: value for key, value in node.operands.items() if key != last},
                     outputs=(Value(name, result.type),), name=name)
    spread = rounded(vector.name, numbers(vector).reshape(shape), vector)
    return normal, Node("add" if last == "beta" else "mul", {"x": normal.output, "y": spread}, node.outputs)
