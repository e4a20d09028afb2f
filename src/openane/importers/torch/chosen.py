"""Rows that a mask chooses: x[mask], what is computed of them row by row, and where they are put back or summed.

How many rows a mask chooses depends on the data. All rows are kept in place of the chosen ones, those too that the mask
leaves out, and what is put back or summed is chosen at the end. That is the same where every operator between works on
each row by itself. Positions of a mask (`nonzero`, `where(mask)`) are then those of all its elements, which are known.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Set
from dataclasses import field, replace
from math import prod
from typing import Any

import numpy as np

from openane.graph import Value
from openane.importers.masks import FARTHEST
from openane.importers.torch.operators import OPERATORS
from openane.importers.torch.step import Result, TorchStep
from openane.record_classes import dataclass

ALONE = frozenset((
    "_native_batch_norm_legit_no_training", "_to_copy", "abs", "add", "addmm", "alias", "baddbmm", "bmm", "ceil",
    "clamp", "clamp_max", "clamp_min", "clone", "convolution", "cos", "detach", "div", "elu", "embedding", "eq", "erf",
    "exp", "expm1", "floor", "fmod", "ge", "gelu", "gt", "hardsigmoid", "hardswish", "hardtanh", "index", "le",
    "leaky_relu", "lift_fresh_copy", "linear", "log", "log1p", "logical_and", "logical_not", "logical_or", "lt",
    "matmul", "maximum", "minimum", "mm", "mul", "ne", "neg", "pow", "prelu", "reciprocal", "relu", "relu6",
    "remainder", "round", "rsqrt", "rsub", "scaled_dot_product_attention", "sigmoid", "sign", "silu", "sin", "softplus",
    "sqrt", "square", "sub", "sym_size", "tan", "tanh", "where"))
"""Operators that give a row for every row of their first dimension, of nothing but that row."""
BY_AXIS = {**dict.fromkeys(("_log_softmax", "_softmax", "amax", "amin", "argmax", "cat", "cumsum", "flip", "gather",
                            "mean", "select", "slice", "squeeze", "sum", "unsqueeze"), 1), "topk": 2}
"""Operators that do so along every axis but the first, and which argument says the axis."""
IN_SHAPE = frozenset(("expand", "native_layer_norm", "layer_norm", "permute", "reshape", "view", "_unsafe_view"))
"""Operators that do so where the first dimension is what it was."""
MAKERS = {"index": 1, "masked_select": 1, "nonzero": 0}
"""Operators that choose rows, and which argument has the mask."""
EXTREMES = {"amax": -FARTHEST, "amin": FARTHEST}
ENDS = frozenset(("index_put", "mean", "sum", *EXTREMES))
"""Operators at which rows end: put where they were chosen, or made one number."""
UNKNOWN = -1
"""In place of a mask's number, of rows that something else chose."""


@dataclass(slots=True)
class ChosenRows:
    """The masks of a program. `makers` has the mask of each node that chooses by one, and `taken` the symbols of how
    many rows are chosen, where all rows may be kept. `counts` says how many are by that symbol, and `chosen` the masks,
    once they are walked; a mask that is known has no rows too many."""

    taken: Set[str]
    makers: Mapping[str, Any]
    counts: dict[str, int] = field(default_factory=dict)
    chosen: dict[str, Value] = field(default_factory=dict)

    @classmethod
    def of(cls, nodes: Iterable[Any], wanted: set[str]) -> ChosenRows:
        """What is found among the nodes that results are computed from; masks whose rows meet an operator that needs
        all of them and nothing else are left out."""
        every = [node for node in nodes if node.op == "output" or node.name in wanted]
        makers = _makers(every)
        if not makers:
            return cls(set(), {})
        alike, choosing = _numbers(every), [node for node in every if node.name in makers]
        masks = {symbol: alike[makers[node.name].name] for node in choosing for symbol in _symbols(node)}
        refused = {symbol for node in every for symbol in _refused(node, masks, alike)}
        return cls(masks.keys() - refused.union(*map(_symbols, filter(_behind, choosing))), makers)

    def shape(self, fake: Any) -> tuple[Any, ...]:
        """A shape with the rows that are kept in place of those that are chosen."""
        return tuple(self.counts.get(str(extent), extent) for extent in fake.shape) if self.counts else \
            tuple(fake.shape)

    def known(self, node: Any) -> int | None:
        """How many rows are kept, for a node that asks for it."""
        return self.counts.get(str(node.meta.get("val"))) if _named(node) == "sym_size" else None

    def begin(self, node: Any, mask: Any) -> None:
        """Notes the mask of a node that chooses, which is a value of the graph or known."""
        for symbol in _symbols(node):
            if not isinstance(mask, Value):
                self.counts[symbol] = int(mask.sum())
            elif symbol in self.taken:
                self.counts[symbol], self.chosen[symbol] = prod(mask.shape), mask

    def end(self, node: Any) -> bool:
        """Whether rows of a mask that is computed end at a node, which no constant is made of then."""
        return not _symbols(node) and any(symbol in self.chosen for symbol in _given(node))

    def computed(self, node: Any, step: TorchStep) -> Result | None:
        """The result of a node that chooses rows, or at which they end. None for all others."""
        if node.name in self.makers and _symbols(node)[0] in self.chosen:
            return step.reshaped(step.value("self"), step.shape)
        if not self.end(node):
            return None
        mask = self.chosen[next(each for each in _given(node) if each in self.chosen)]
        return _put(step, mask) if step.op == "index_put" else _reduced(step, mask)

    def positions(self, node: Any) -> np.ndarray | None:
        """The positions that `nonzero` gives of a mask that is computed: those of all elements."""
        symbol = next(iter(_symbols(node)), "")
        if node.name not in self.makers or _named(node) != "nonzero" or symbol not in self.chosen:
            return None
        shape = self.chosen[symbol].shape
        return np.indices(shape).reshape(len(shape), -1).T


def _put(step: TorchStep, mask: Value) -> Result:
    """Rows put where the mask chose them, or added there."""
    lists = step.argument("indices")
    whole = [each for each in lists if each is not None]
    x, values, shape = step.number("self"), step.number("values"), mask.shape
    grid = np.indices(shape).reshape(len(shape), -1)
    adds = bool(step.argument("accumulate", False))
    if isinstance(whole[0], Value) or (not adds and _is_grid(whole, grid)):
        rows = step.spread(values, (grid.shape[1], *x.shape[len(shape):]), "rows")
        wide = step.reshaped(rows, x.shape, "whole")
        cond = step.reshaped(mask, (*shape, *(1,) * (x.type.rank - len(shape))), "mask")
        if not adds:
            return step.add("select", cond=cond, a=wide, b=x)
        part = step.add("select", part="part", cond=cond, a=wide, b=_number(step, wide.dtype, 0))
        return step.add("add", x=x, y=part)
    if not adds:
        raise step.refuse("indices", "some of the positions that a mask has", "all of them, in their order, or sums")
    rows = step.spread(values, (grid.shape[1], *x.shape[len(whole):]), "rows")
    part = _kept(step, rows, mask)
    handler = OPERATORS["index_put"]
    return handler(replace(step, arguments={**step.arguments, "values": part}))


def _is_grid(lists: list[Any], grid: np.ndarray) -> bool:
    return len(lists) == len(grid) and all(np.array_equal(np.asarray(each), row)
                                           for each, row in zip(lists, grid, strict=True))


def _reduced(step: TorchStep, mask: Value) -> Result:
    """The sum or the mean of chosen rows, or the largest or smallest of their elements."""
    x = step.value("self")
    part = _kept(step, x, mask, EXTREMES.get(step.op, 0))
    if step.op != "mean":
        return OPERATORS[step.op](replace(step, arguments={**step.arguments, "self": part}))
    axes = [axis % x.type.rank for axis in step.argument("dim", ())] or list(range(x.type.rank))
    total = step.add("reduce_sum", part="total", x=part, axes=axes, keep_dims=True)
    marks = step.reshaped(step.cast(mask, "fp16", "marks"), (x.shape[0], *(1,) * (x.type.rank - 1)), "counted")
    count = step.add("reduce_sum", part="count", x=marks, axes=[0], keep_dims=True)
    others = prod(x.shape[axis] for axis in axes if axis)
    if others > 1:
        count = step.add("mul", part="numbers", x=count, y=float(others))
    return step.reshaped(step.add("real_div", part="mean", x=total, y=count), step.shape)


def _kept(step: TorchStep, rows: Value, mask: Value, otherwise: float = 0) -> Value:
    """Rows, with one number in place of those that the mask leaves out."""
    cond = step.reshaped(mask, (rows.shape[0], *(1,) * (rows.type.rank - 1)), "chosen")
    return step.add("select", part="kept", cond=cond, a=rows, b=_number(step, rows.dtype, otherwise))


def _number(step: TorchStep, dtype: str, number: float) -> Value:
    kinds: dict[str, Any] = {"fp16": np.float16, "int32": np.int32, "bool": np.bool_}
    return step.builder.constant(np.full((), number, kinds[dtype]))


def _named(node: Any) -> str:
    return str(node.target).partition(".")[2].rpartition(".")[0]


def _symbols(node: Any) -> list[str]:
    """The symbols of extents that data decides, in what a node gives."""
    found = node.meta.get("val")
    several = found if isinstance(found, tuple | list) else (found,)
    extents = [extent for each in several for extent in (each.shape if hasattr(each, "shape") else (each,))]
    return list(dict.fromkeys(str(each) for each in extents if str(each).startswith("u")))


def _given(node: Any) -> list[str]:
    """The symbols of what a node is given."""
    return list(dict.fromkeys(symbol for each in node.all_input_nodes for symbol in _symbols(each)))


def _makers(nodes: Iterable[Any]) -> dict[str, Any]:
    """The masks of the nodes that choose by one."""
    found = {node.name: _mask(node) for node in nodes if _named(node) in MAKERS and _symbols(node)}
    return {name: mask for name, mask in found.items() if mask is not None}


def _refused(node: Any, masks: Mapping[str, int], alike: Mapping[str, int]) -> list[str]:
    """The symbols of rows that a node is given and needs alone."""
    given = _given(node)
    return [] if not given or _allowed(node, {masks.get(each, UNKNOWN) for each in given}, alike) else given


def _mask(node: Any) -> Any:
    """The mask by which a node chooses rows; None where it does something else."""
    if _given(node):
        return None
    if _named(node) == "index":
        lists = [each for each in node.args[1] if each is not None]
        found = lists[0] if len(lists) == 1 else None
    else:
        found = node.args[MAKERS[_named(node)]]
    fake = getattr(found, "meta", {}).get("val")
    return found if str(getattr(fake, "dtype", "")) == "torch.bool" else None


def _behind(node: Any) -> bool:
    """Whether a mask chooses along other axes than the first ones, or of a tensor that is spread over it."""
    if _named(node) == "index":
        return node.args[1][0] is None
    return _named(node) == "masked_select" and node.args[0].meta["val"].shape != node.args[1].meta["val"].shape


def _allowed(node: Any, numbers: set[int], alike: Mapping[str, int]) -> bool:
    """Whether a node that is given chosen rows treats each by itself, puts them back or sums them."""
    name, rows = _named(node), _symbols(node)
    if node.target is operator.getitem:
        return True
    if len(numbers) != 1 or (rows and any(extent.startswith("u") for extent in _inner(node))):
        return False
    if not rows:
        return name in ENDS and (name != "index_put" or _puts_back(node, numbers, alike))
    return _by_row(node, name)


def _by_row(node: Any, name: str) -> bool:
    """Whether a node of rows gives rows, each of nothing but one row."""
    if name in ALONE:
        return name != "scaled_dot_product_attention" or len(node.args[0].meta["val"].shape) > 2
    if name in IN_SHAPE:
        return name != "permute" or node.args[1][0] == 0
    return name in BY_AXIS and _beside_first(node, name)


def _beside_first(node: Any, name: str) -> bool:
    """Whether the axes that a node works along are none of them the first, and what it reads of each row is its own."""
    if name == "gather" and not all(map(_symbols, node.all_input_nodes)):
        return False
    axes = node.args[BY_AXIS[name]] if len(node.args) > BY_AXIS[name] else 0
    first = node.args[0][0] if isinstance(node.args[0], list | tuple) else node.args[0]
    rank = len(first.meta["val"].shape) + (name == "unsqueeze")
    several = axes if isinstance(axes, list | tuple) else (axes,)
    return all(axis is not None and axis % rank for axis in several)


def _inner(node: Any) -> list[str]:
    """Extents behind the first, of what a node is given and gives."""
    fakes = [each.meta.get("val") for each in (node, *node.all_input_nodes)]
    flat = [one for each in fakes for one in (each if isinstance(each, tuple | list) else (each,))]
    return [str(extent) for one in flat if hasattr(one, "shape") for extent in one.shape[1:]]


def _puts_back(node: Any, numbers: set[int], alike: Mapping[str, int]) -> bool:
    """Whether a node puts rows where their own mask chose them; positions have been held to be of one mask."""
    lists = node.args[1]
    if _symbols(node.args[0]) or any(each is None for each in lists):
        return False
    fake = lists[0].meta.get("val")
    return str(fake.dtype) != "torch.bool" or (len(lists) == 1 and alike[lists[0].name] in numbers)


def _numbers(nodes: Iterable[Any]) -> dict[str, int]:
    """A number for every node, the same for those that compute the same of the same."""
    found: dict[str, int] = {}
    known: dict[str, int] = {}
    for node in nodes:
        said = [f"%{found.get(each.name, each.name)}" if hasattr(each, "meta") else repr(each)
                for each in _flat((node.args, sorted(node.kwargs.items())))]
        found[node.name] = known.setdefault(f"{node.target} {said}", len(known))
    return found


def _flat(given: Any) -> list[Any]:
    return [each for part in given for each in _flat(part)] if isinstance(given, list | tuple) else [given]
