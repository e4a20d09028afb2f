"""Runs graphs for a part of the positions of their images and rows, so that what range their numbers have is seen in a
fraction of the time.

An input of convolutions is cut to its first positions. What an operation does at each position alone, or from those
around it, it does to the part; where sums run along positions each stands for those that were left out; and what asks
for all of them is given them, the part repeated. The results are another input's, so to speak: of the same kind, and as
large, but not those of the whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from math import prod

import numpy as np

from openane.graph import Graph, Node, RoundedConstant, Value, substituted
from openane.ops import get_op
from openane.ops.conv import conv_window
from openane.ops.evaluate import done_after, evaluate_node, forget, last_uses
from openane.ops.in_single import single_batch_norm, single_gelu, single_layer_norm, single_response_norm
from openane.ops.windows_in_part import windows_in_part
from openane.rounding import round_up

LEAST, MULTIPLE = 128, 16
"""Positions of a dimension from which on it is cut; what is left of it is a multiple of so many, which strides
divide."""
SHARE, MOST, ENOUGH, WINDOWS = 4, 16, 80, 6
"""All positions are about so many times those that are left, and more, up to `MOST`, where `ENOUGH` of a dimension are
left nevertheless, two behind five strides of two, and so many windows of the first convolution: rows of attention
average each other."""

KEPT = 1 << 8
"""Reshapes of which it is kept what they make of a part."""

Shape = tuple[int, ...]
Arrays = Mapping[int, np.ndarray]
"""Of a part, by id of the value."""
Results = tuple[np.ndarray, ...]
Seen = Callable[[Node, Arrays], bool]
"""Told of a node when its results are known; False ends the evaluation."""
Unscaled = Callable[[Node], tuple[Node, np.ndarray, np.ndarray] | None]
"""A node that takes less to compute, and what its result is multiplied by, and then added, to be that of the given one;
None where there is no such."""


def cut(graph: Graph, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray] | None:
    """The inputs with those that nothing but convolutions read cut to a part of their positions; None where nothing is
    to be cut."""
    users, found = graph.users(), dict(inputs)
    for value in graph.inputs:
        readers = users.get(id(value), ())
        if readers and value.name in found and all(_convolves(node, value) for node in readers):
            array = np.asarray(found[value.name])
            found[value.name] = np.ascontiguousarray(array[_first(array.shape, _strides(readers))])
    same = all(found[name].shape == np.shape(array) for name, array in inputs.items())
    return None if same else found


def _convolves(node: Node, value: Value) -> bool:
    weight = node.get("weight")
    return node.op == "conv" and node["x"] is value and weight is not None and weight.constant


def _strides(readers: Sequence[Node]) -> list[int]:
    """How far apart the windows of convolutions are at most, for each spatial dimension."""
    return [max(steps) for steps in zip(*(conv_window(node.operands).strides for node in readers), strict=True)]


def _first(shape: Sequence[int], strides: Sequence[int]) -> tuple[slice, ...]:
    """The first positions of an input [N, C, *spatial] of convolutions."""
    share, most = (share ** (1 / max(1, len(shape) - 2)) for share in (SHARE, MOST))
    left = (round_up(int(max(extent / most, min(max(ENOUGH, WINDOWS * stride), extent / share))), MULTIPLE)
            if extent >= LEAST else extent for extent, stride in zip(shape[2:], strides, strict=True))
    return (slice(None), slice(None), *map(slice, left))


def evaluate_in_part(graph: Graph, inputs: Mapping[str, np.ndarray], seen: Seen,
                     unscaled: Unscaled = lambda node: None) -> bool:
    """Evaluates a graph for inputs that were cut, in float32; False where `seen` ended that."""
    results = {id(value): np.asarray(inputs[value.name]) for value in graph.inputs}
    results = {number: array.astype(np.float32, copy=False) if array.dtype.kind == "f" else array
               for number, array in results.items()}
    done = done_after(last_uses(graph))
    for position, node in enumerate(graph.nodes):
        results.update(zip(map(id, node.outputs), _results(node, results, unscaled), strict=True))
        if not seen(node, results):
            return False
        forget(results, done[position])
    return True


def _results(node: Node, arrays: Arrays, unscaled: Unscaled) -> Results:
    """What a node makes of parts of what it reads, computed in the quickest way."""
    found = unscaled(node)
    if found is None:
        return _in_part(node, arrays)
    plain, gain, offset = found
    (result,) = _in_part(plain, arrays)
    np.multiply(result, gain, out=result)
    return (np.add(result, offset, out=result),)


def _in_part(node: Node, arrays: Arrays) -> Results:
    """What a node makes of parts of what it reads, or of the whole, repeated, where it needs that."""
    node = _in_digits(node)
    if all(arrays[id(value)].shape == value.shape for value in node.computed()):
        return evaluate_node(node, arrays)
    op = get_op(node.op)
    rule = _RULES.get(node.op) or (_elementwise if op.unary is not None or op.arithmetic is not None else None)
    found = None if rule is None else rule(node, arrays)
    if found is not None:
        return found
    whole = {id(value): _whole(arrays[id(value)], value.shape) for value in node.computed()}
    return evaluate_node(node, {**arrays, **whole})


def _in_digits(node: Node) -> Node:
    """The node with constants in all digits where the model states them, which spares widening what was rounded."""
    return substituted(node, {id(value): Value(value.name, value.type, value.stated) for value in node.values()
                              if isinstance(value, RoundedConstant) and not value.exponent
                              and isinstance(value.stated, np.ndarray)})


def _cut_of(value: Value, arrays: Arrays) -> list[int]:
    """The dimensions of a value of which there is a part."""
    if value.constant or arrays[id(value)].shape == value.shape:
        return []
    return [d for d, (part, whole) in enumerate(zip(arrays[id(value)].shape, value.shape, strict=True))
            if part != whole]


def _held(value: Value, arrays: Arrays) -> np.ndarray:
    return value.array() if value.constant else arrays[id(value)]


def _whole(array: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    """A part, repeated, in the shape of the whole."""
    for d, extent in enumerate(shape):
        if array.shape[d] != extent:
            array = array.take(np.arange(extent) % array.shape[d], axis=d)
    return array


def _as_it_is(node: Node, arrays: Arrays) -> Results:
    return evaluate_node(node, arrays)


def _elementwise(node: Node, arrays: Arrays) -> Results:
    """Of operands that are broadcast to each other, all of them cut alike."""
    return _alike(node, arrays, None)


def _concat(node: Node, arrays: Arrays) -> Results:
    return _alike(node, arrays, int(node["axis"].array()) % node.output.type.rank)


def _alike(node: Node, arrays: Arrays, but: int | None) -> Results:
    """The results of operands that are cut to the shortest part of each dimension, but one."""
    rank = node.output.type.rank
    tensors = [value for value in node.values() if value.type.rank and not isinstance(value.data, str)]
    if _fit([_held(value, arrays).shape for value in tensors], but):
        return evaluate_node(node, arrays)
    left = {own: extent for own, extent in _shortest(tensors, rank, arrays).items() if own != but}
    return _shortened(node, tensors, left, arrays)


def _shortened(node: Node, tensors: Sequence[Value], left: Mapping[int, int], arrays: Arrays) -> Results:
    """The results of operands that are cut to what is `left` of each dimension of the result."""
    rank, found, constants = node.output.type.rank, dict(arrays), dict[int, Value]()
    for value in tensors:
        array, before = _held(value, arrays), rank - value.type.rank
        short = {own - before: extent for own, extent in left.items() if own >= before
                 and array.shape[own - before] > max(1, extent)}
        if not short:
            continue
        places = tuple(slice(short.get(d)) for d in range(array.ndim))
        if value.constant:
            constants[id(value)] = replace(value, data=array[places])
        else:
            found[id(value)] = array[places]
    return evaluate_node(substituted(node, constants), found)


def _fit(shapes: Sequence[tuple[int, ...]], but: int | None) -> bool:
    """Whether what has these shapes has as many positions of each dimension, counted from the last, or one; of what has
    the same rank the dimension `but` does not count."""
    known = dict[int, int]()
    for shape in shapes:
        for d, extent in enumerate(shape, -len(shape)):
            if extent > 1 and d + len(shape) != but and known.setdefault(d, extent) != extent:
                return False
    return True


def _shortest(tensors: Sequence[Value], rank: int, arrays: Arrays) -> dict[int, int]:
    """How much is left of the dimensions, of `rank`, of which there is a part."""
    left: dict[int, int] = {}
    for value in tensors:
        for d in _cut_of(value, arrays):
            own = d + rank - value.type.rank
            left[own] = min(arrays[id(value)].shape[d], left.get(own, value.shape[d]))
    return left


def _batch_norm(node: Node, arrays: Arrays) -> Results | None:
    return None if 1 in _cut_of(node["x"], arrays) else single_batch_norm(node, arrays)


def _local_response_norm(node: Node, arrays: Arrays) -> Results | None:
    return None if 1 in _cut_of(node["x"], arrays) else single_response_norm(node, arrays)


def _linear(node: Node, arrays: Arrays) -> Results | None:
    x = node["x"]
    return None if x.type.rank - 1 in _cut_of(x, arrays) else evaluate_node(node, arrays)


def _layer_norm(node: Node, arrays: Arrays) -> Results | None:
    x, axes = node["x"], node.get("axes")
    along = range(x.type.rank) if axes is None else [axis % x.type.rank for axis in axes.array().ravel().tolist()]
    return None if set(along).intersection(_cut_of(x, arrays)) else single_layer_norm(node, arrays)


def _softmax(node: Node, arrays: Arrays) -> Results:
    """Each number stands for those that were left out, which have their share."""
    x = node["x"]
    axis = int(node["axis"].array()) % x.type.rank if node.get("axis") is not None else x.type.rank - 1
    result, = evaluate_node(node, arrays)
    return (_times(result, arrays[id(x)].shape[axis] / x.shape[axis]),)


def _matmul(node: Node, arrays: Arrays) -> Results | None:
    """Where sums run along a part, of both operands, each product stands for those that were left out."""
    sides = (node["x"], "transpose_x", -1), (node["y"], "transpose_y", -2)
    if any(value.type.rank < 2 for value, _, _ in sides):
        return None
    lengths = []
    for value, name, axis in sides:
        turned = node.get(name)
        along = axis if turned is None or not turned.array() else -3 - axis
        lengths.append((value.shape[along], _held(value, arrays).shape[along]))
    (whole, part), other = lengths
    if (whole, part) != other:
        return None
    result, = evaluate_node(node, arrays)
    return (_times(result, whole / part),)


def _times(array: np.ndarray, factor: float) -> np.ndarray:
    return array if factor == 1 else np.multiply(array, np.float32(factor))


def _gather(node: Node, arrays: Arrays) -> Results | None:
    """At known places that are in the part."""
    x, places, axis = node["x"], node.get("indices"), node.get("axis")
    along = 0 if axis is None else int(axis.array()) % x.type.rank
    if along not in _cut_of(x, arrays):
        return evaluate_node(node, arrays)
    known = places is not None and isinstance(places.data, np.ndarray) and places.data.size > 0
    inside = known and places is not None and places.array().min() >= 0 and \
        places.array().max() < arrays[id(x)].shape[along]
    return evaluate_node(node, arrays) if inside else None


def _reshape(node: Node, arrays: Arrays) -> Results | None:
    array = arrays[id(node["x"])]
    shape = _shape_of(node["x"].shape, array.shape, node.output.shape)
    return None if shape is None else (array.reshape(shape),)


@lru_cache(maxsize=KEPT)
def _shape_of(whole: Shape, part: Shape, made: Shape) -> Shape | None:
    """The shape of the part of what `whole` is given the shape `made`: dimensions that were cut stay, or become one;
    None where others are made of them."""
    shape: list[int] = []
    for before, after in _groups(whole, made):
        extents = [made[d] for d in after]
        if all(part[d] == whole[d] for d in before):
            shape += extents
            continue
        if any(part[d] == whole[d] > 1 for d in before) or sum(extent > 1 for extent in extents) > 1:
            return None
        left = prod(part[d] for d in before)
        shape += [left if extent > 1 else 1 for extent in extents]
    return tuple(shape)


def _groups(whole: Sequence[int], made: Sequence[int]) -> list[tuple[list[int], list[int]]]:
    """The dimensions before and after a reshape that have the same elements, as few together as can be."""
    groups, first, second = list[tuple[list[int], list[int]]](), 0, 0
    while first < len(whole) or second < len(made):
        before, after = [first][:len(whole) - first], [second][:len(made) - second]
        while (one := prod(whole[d] for d in before)) != (other := prod(made[d] for d in after)):
            if one < other:
                before.append(first + len(before))
            else:
                after.append(second + len(after))
        groups.append((before, after))
        first, second = first + len(before), second + len(after)
    return groups


_RULES: Mapping[str, Callable[[Node, Arrays], Results | None]] = {
    **dict.fromkeys(("identity", "cast", "transpose", "reduce_mean"), _as_it_is),
    **dict.fromkeys(("conv", "avg_pool", "max_pool"), windows_in_part),
    **dict.fromkeys(("reshape", "squeeze", "expand_dims"), _reshape),
    "batch_norm": _batch_norm, "local_response_norm": _local_response_norm, "concat": _concat,
    "linear": _linear, "layer_norm": _layer_norm, "softmax": _softmax, "matmul": _matmul,
    "gather": _gather, "gelu": single_gelu,
}
"""Of operations that may be computed for a part, by name."""
