"""ONNX If, Loop and Scan where the model itself decides how they run: the branch that is taken, the loop unrolled.

The engine has no control flow. Counts are constants; where the condition of an If is computed both branches are, and
one is chosen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count

import numpy as np

from openane.errors import AneError, GraphError, UnsupportedError
from openane.graph import Value
from openane.importers.onnx.nodes import Proto
from openane.importers.onnx.step import Handler, OnnxStep, Operand, Result, RunTimeOperandError

MOST_TURNS = 4096
"""Largest number of turns a loop is unrolled to; what its turns come to is bounded by the nodes of all loops."""
CONDITION = "the condition"


def _graph(step: OnnxStep, name: str, inputs: int | None = None) -> Proto:
    """The nested graph `name`, which takes `inputs` inputs."""
    graph = step.attributes.get(name)
    if graph is None or not hasattr(graph, "node"):
        raise GraphError(f"{step.label}: attribute {name!r} must be a graph")
    if inputs is not None and len(graph.input) != inputs:
        raise GraphError(f"{step.label}: {name!r} takes {len(graph.input)} inputs, {inputs} are given")
    return graph


def _if(step: OnnxStep) -> Result:
    condition = step.operand(0)
    if isinstance(condition, Value) and condition.type.elements == 1 and not step.is_set(step.input_names[0]):
        return _both(step, condition)
    taken = bool(step.array(0, CONDITION).reshape(()))
    return step.body(_graph(step, "then_branch" if taken else "else_branch"), {})


def _both(step: OnnxStep, condition: Value) -> Result:
    """What the condition chooses of what both branches compute. Where they cannot be computed, or differ in shape, the
    condition is what has to be known; and so is a setting, which stays what it is from run to run."""
    try:
        taken, other = (step.body(_graph(step, name), {}) for name in ("then_branch", "else_branch"))
    except AneError as error:
        why = f"{CONDITION}, as one of its branches cannot be computed ({str(error).splitlines()[0]}),"
        raise RunTimeOperandError(step.label, why, step.input_names[0]) from error
    shapes = [[list(each.shape) for each in results] for results in (taken, other)]
    if shapes[0] != shapes[1]:
        why = f"{CONDITION}, as one branch gives shapes {shapes[0]} and the other {shapes[1]},"
        raise RunTimeOperandError(step.label, why, step.input_names[0])
    return tuple(_chosen(step, condition, *pair) for pair in zip(taken, other, strict=True))


def _chosen(step: OnnxStep, condition: Value, taken: Operand, other: Operand) -> Operand:
    first, second = (step.widened(step.constants.value(each, f"{step.name}_{name}") if isinstance(each, np.ndarray)
                                  else each) for name, each in (("then", taken), ("else", other)))
    choice = step.reshaped(condition, (1,) * max(first.type.rank, 1), "condition")
    return step.add("select", part="chosen", cond=choice, a=first, b=second)


def _loop(step: OnnxStep) -> Result:
    """Turns until the count is reached or the condition is false; what each turn hands out is stacked."""
    body = _graph(step, "body", len(step.inputs))
    names = [port.name for port in body.input]
    states = [step.operand(index) for index in range(2, len(step.inputs))]
    limit = int(step.number_in(0, "the number of turns")) if step.has(0) else None
    going = bool(step.array(1, "the condition").reshape(())) if step.has(1) else True
    made: list[Sequence[Operand]] = []
    for turn in count():
        if not going or (limit is not None and turn >= limit):
            break
        _check_turns(step, turn + 1)
        given = (np.array(turn, np.int64), np.array(True), *states)
        condition, *results = step.body(body, dict(zip(names, given, strict=True)))
        if isinstance(condition, Value):
            raise UnsupportedError(step.label, "the condition must be known when the model is compiled",
                                   found=f"{condition.name!r}, computed", remedy="state the number of turns alone")
        going, states = bool(condition.reshape(())), list(results[:len(states)])
        made.append(results[len(states):])
    return (*states, *_gathered(step, made, len(step.outputs) - len(states)))


def _check_turns(step: OnnxStep, turns: int) -> None:
    if turns > MOST_TURNS:
        raise UnsupportedError(step.label, "every turn becomes operations of its own", limit=MOST_TURNS, found=turns,
                               remedy="export one turn as a model with states in and out, and let the host loop")


def _gathered(step: OnnxStep, made: Sequence[Sequence[Operand]], expected: int, axes: Sequence[int] = (),
              backwards: Sequence[int] = ()) -> list[Operand]:
    """What the turns handed out, stacked along the axes."""
    if not made and expected > 0:
        raise UnsupportedError(step.label, "tensors without elements cannot be computed", found="a loop of no turns",
                               remedy="leave the node out")
    columns = [list(column) for column in zip(*made, strict=True)]
    return [_stacked(step, column[::-1] if place < len(backwards) and backwards[place] else column,
                     axes[place] if place < len(axes) else 0) for place, column in enumerate(columns)]


def _stacked(step: OnnxStep, parts: Sequence[Operand], axis: int) -> Operand:
    axis = step.front(axis, len(parts[0].shape) + 1)
    arrays = [part for part in parts if isinstance(part, np.ndarray)]
    if len(arrays) == len(parts):
        return np.stack(arrays, axis)
    wide = tuple(step.add("expand_dims", part="turn", axes=[axis], x=part if isinstance(part, Value) else
                          step.constants.value(part, f"{step.name}_turn")) for part in parts)
    return wide[0] if len(wide) == 1 else step.add("concat", part="turns", values=wide, axis=axis)


def _scan(step: OnnxStep) -> Result:
    """One turn for each place along the scanned axes."""
    if step.version < 9:
        raise UnsupportedError(step.label, "Scan is read from opset 9 on", found=f"opset {step.version}",
                               remedy="onnx.version_converter.convert_version(model, 13)")
    body = _graph(step, "body", len(step.inputs))
    names = [port.name for port in body.input]
    scanned = step.integer("num_scan_inputs", 0)
    kept = len(step.inputs) - scanned
    if not 0 < scanned <= len(step.inputs):
        raise GraphError(f"{step.label}: num_scan_inputs must be 1 to {len(step.inputs)}, found {scanned}")
    sources = [step.operand(index) for index in range(kept, len(step.inputs))]
    axes = [step.front(axis, len(source.shape)) for axis, source in
            zip(step.integers("scan_input_axes", (0,) * scanned, scanned), sources, strict=True)]
    turned = step.integers("scan_input_directions", (0,) * scanned, scanned)
    turns = sources[0].shape[axes[0]]
    _check_turns(step, turns)
    states = [step.operand(index) for index in range(kept)]
    made: list[Sequence[Operand]] = []
    for turn in range(turns):
        parts = [_at(step, source, axis, turns - 1 - turn if back else turn)
                 for source, axis, back in zip(sources, axes, turned, strict=True)]
        results = step.body(body, dict(zip(names, (*states, *parts), strict=True)))
        states = list(results[:kept])
        made.append(results[kept:])
    stacked = _gathered(step, made, len(step.outputs) - kept, step.integers("scan_output_axes", ()),
                        step.integers("scan_output_directions", ()))
    return (*states, *stacked)


def _at(step: OnnxStep, source: Operand, axis: int, place: int) -> Operand:
    """One place along an axis, the axis gone."""
    if isinstance(source, np.ndarray):
        return np.asarray(source.take(place, axis))
    begin, end = [0] * source.type.rank, list(source.shape)
    begin[axis], end[axis] = place, place + 1
    part = step.add("slice_by_index", part="turn", x=source, begin=begin, end=end)
    return step.add("squeeze", part="turn", x=part, axes=[axis])


OPERATORS: Mapping[str, Handler] = {"If": _if, "Loop": _loop, "Scan": _scan}
