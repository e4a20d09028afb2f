"""Normalisation, gains and offsets per output channel behind a convolution or product go into its weights and bias."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from openane.graph import Graph, Node, RoundedConstant, Value, as_stated
from openane.ops import get_op
from openane.ops.affine import gain_and_offset
from openane.ops.half_bits import to_half
from openane.ops.half_products import chunks, half_products
from openane.ops.halves import halves_finite
from openane.ops.spec import Product
from openane.ops.weights import constant, numbers, rounded
from openane.passes.folded_once import folded, was_folded
from openane.passes.rewrite import only_user, rebuilt
from openane.record_classes import dataclass


@dataclass(frozen=True, eq=False, slots=True)
class FoldedConstant(Value):
    """A constant made by folding `users` into `before`, one after the other."""

    before: Node | None = None
    users: tuple[Node, ...] = ()


Affine = tuple[np.ndarray, np.ndarray]
"""Gain and offset per output channel, float64."""

OVERFLOW = 65520.0
"""The smallest number that fp16 rounds to infinity."""


def fold_affine(graph: Graph, digits: bool = False) -> Graph:
    """The graph with per-channel affine nodes folded into the conv, conv_transpose, linear or constant matmul before
    them. With `digits` biases keep those that fp16 drops: of small ones that are to be made larger."""
    outputs = {id(value) for value in graph.outputs}
    users = graph.users()
    gone: set[int] = set()
    nodes: list[Node] = []
    for node in graph.nodes:
        if id(node) in gone:
            continue
        folded, taken = node, list[Node]()
        while _has_weights(folded) and (user := only_user(users, outputs, folded.output)) is not None:
            affine = _affine(user, folded)
            together = None if affine is None else _with(folded, user, affine, digits)
            if together is None:
                break
            gone.add(id(user))
            taken.append(user)
            folded = together
        nodes.append(_remembering(folded, node, tuple(taken), ("weight",) if digits else ("weight", "bias")))
    return rebuilt(graph, nodes)


def refolded(node: Node, users: Sequence[Node]) -> Node | None:
    """The node with all of `users` folded into it; None where that cannot be."""
    folded: Node | None = node
    for user in users:
        affine = None if folded is None else _affine(user, folded)
        folded = None if folded is None or affine is None else _with(folded, user, affine)
    return folded


def takes_up(node: Node, user: Node) -> bool:
    """Whether `user` has the form of what is folded into `node`, whatever the numbers."""
    return _has_weights(node) and _affine(user, node) is not None


def _remembering(folded: Node, before: Node, users: tuple[Node, ...], names: Sequence[str]) -> Node:
    """The folded node with constants of these names that say what they were made of."""
    known = {id(value) for value in before.values()}
    made = {name: FoldedConstant(value.name, value.type, value.data, before, users) for name in names
            if users and (value := folded.get(name)) is not None and id(value) not in known}
    return replace(folded, operands={**folded.operands, **made}) if made else folded


def _has_weights(node: Node) -> bool:
    product = get_op(node.op).product
    return product is not None and product.form(node, node.output.name) is not None


def _affine(node: Node, before: Node) -> Affine | None:
    """What `node` does to each output channel of `before`, or None when it does something else."""
    product, result = get_op(before.op).product, before.output
    axis = 0 if product is None else product.axis % max(result.type.rank, 1)
    return None if product is None else gain_and_offset(as_stated(node), result, axis)


def _with(node: Node, user: Node, affine: Affine, digits: bool = False) -> Node | None:
    """The convolution or product with `affine` folded in, making what `user` made; None where fp16 does not hold what
    would become its weights and bias."""
    gain, offset = affine
    name, product = user.output.name, get_op(node.op).product
    made = None if product is None else product.form(node, name)
    if product is None or made is None:
        return None
    weight, bias = made["weight"], made.get("bias")
    seen = _Channels(weight.array(), gain, product)
    shift = (0 if bias is None else numbers(bias).astype(np.float64)) * gain + offset
    if not (_largest(shift) < OVERFLOW and (was_folded(weight, product, gain) or seen.take_gains())):
        return None
    operands = dict(made.operands)
    if (gain != 1).any():
        scaled_weight = folded(weight, product, gain, lambda: seen.scaled(weight))
        operands["weight"] = replace(scaled_weight, name=f"{name}_weight")
    if shift.any() or bias is not None:
        operands["bias"] = rounded(f"{name}_bias", shift, weight, digits)
    return replace(made, operands=operands, outputs=user.outputs)


def _resolved(largest: float, scaled: float) -> bool:
    """Whether the folded weights keep the relative precision the weights had: fp16 rounds what it holds below its
    normal range by up to 2^-25, as it does the largest weight from 2^-14 on. All channels together, so that one scaled
    to next to nothing does not keep the others from folding."""
    return scaled == 0 or scaled >= float(np.finfo(np.float16).smallest_normal) or scaled >= largest


def _largest(numbers: np.ndarray) -> float:
    """The largest magnitude, NaN when one is NaN; 0 of none."""
    return float(np.maximum(numbers.max(), -numbers.min())) if numbers.size else 0.0


@dataclass(frozen=True, slots=True)
class _Channels:
    """A weight and the gains its output channels take."""

    weight: np.ndarray
    gain: np.ndarray
    product: Product

    def _seen(self, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """A view of a weight of that form, and the gains as they are broadcast to it."""
        view, shape = self.product.by_channel(weight, len(self.gain))
        return view, self.gain.reshape(shape)

    def take_gains(self) -> bool:
        """Whether fp16 holds the weight times its gains."""
        if self.weight.dtype == np.float16 and (self.gain == 1).all():
            return halves_finite(self.weight)
        largest, scaled = self.largest()
        return scaled < OVERFLOW and _resolved(largest, scaled)

    def largest(self) -> tuple[float, float]:
        """The largest magnitude of the weight before and after its output channels take their gains, NaN as in
        `_largest`.

        Rounding keeps the order of numbers, so that the largest product is the one of each channel's largest weight.
        """
        if not self.weight.size:
            return 0.0, 0.0
        seen, gains = self._seen(self.weight)
        axes = tuple(axis for axis in range(seen.ndim) if gains.shape[axis] == 1)
        if self.weight.dtype == np.float16:  # the bits of magnitudes are in the order of the numbers, NaN last
            peaks = np.abs(seen).view(np.uint16).max(axis=axes, keepdims=True).view(np.float16)
        else:
            peaks = np.abs(seen).max(axis=axes, keepdims=True)
        peaks = peaks.astype(np.float64)
        return float(peaks.max()), float((peaks * np.abs(gains)).max())

    def scaled(self, like: Value) -> Value:
        """The weight, which is `like`, with every output channel times its gain, rounded once. Its digits, which take
        twice the memory, are computed again where more is folded."""
        if not isinstance(like, RoundedConstant):
            return constant(like.name, self._scaled_halves(), like)
        made = constant(like.name, self._rounded(like.digits()), like)
        return RoundedConstant(made.name, made.type, made.array(), stated=partial(self._products, like))

    def _products(self, like: RoundedConstant) -> np.ndarray:
        """All digits of the weight times its gains, float32."""
        stated = like.digits()
        seen, gains = self._seen(stated)
        result = np.empty(stated.shape, np.float32)
        np.multiply(seen, gains.astype(np.float32), out=self._seen(result)[0])
        return result

    def _rounded(self, stated: np.ndarray) -> np.ndarray:
        """`_products` in the type of the weight, a part at a time."""
        (seen, gains), result = self._seen(stated), np.empty_like(self.weight)
        target = self._seen(result)[0]
        for part, factors in chunks(seen, gains.astype(np.float32)):
            products = np.multiply(seen[part], factors, order="C")
            target[part] = to_half(products) if result.dtype == np.float16 else products
        return result

    def _scaled_halves(self) -> np.ndarray:
        """The weight times its gains, computed in float64 and rounded."""
        seen, gains = self._seen(self.weight)
        result = np.empty_like(self.weight)
        if self.weight.dtype == np.float16:
            half_products(seen, gains, self._seen(result)[0])
            return result
        with np.errstate(over="ignore"):
            np.multiply(seen, gains, out=self._seen(result)[0], dtype=np.float64, casting="unsafe")
        return result
