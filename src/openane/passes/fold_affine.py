"""Normalisation, gains and offsets per output channel behind a convolution or product go into its weights and bias."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from openane.graph import Graph, Node, RoundedConstant, Value, as_stated, numpy_type
from openane.ops import get_op
from openane.ops.affine import gain_and_offset, may_be_affine
from openane.ops.half_bits import to_half
from openane.ops.half_products import half_products
from openane.ops.halves import SMALLEST_NORMAL, halves_finite
from openane.ops.late_constant import LateConstant
from openane.ops.put_products import put_products
from openane.ops.spec import Product
from openane.ops.weights import constant, numbers, rounded
from openane.passes.folded_constants import ScaledConstant, remembering
from openane.passes.folded_once import Folded, folded, folded_nodes, was_folded
from openane.passes.rewrite import only_user, rebuilt
from openane.record_classes import dataclass

Affine = tuple[np.ndarray, np.ndarray]
"""Gain and offset per output channel, float64."""

OVERFLOW = 65520.0
"""The smallest number that fp16 rounds to infinity."""
ROUNDED = 2.0 ** -9
"""More than the share of itself by which a number changes that is rounded to fp16, twice."""


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
        folded, taken = _with_those_behind(node, users, outputs, digits)
        gone.update(map(id, taken))
        nodes.append(remembering(folded, node, taken, ("weight",) if digits else ("weight", "bias")))
    return rebuilt(graph, nodes)


def _with_those_behind(node: Node, users: Mapping[int, list[Node]], outputs: set[int], digits: bool) -> Folded:
    """A node with weights and what is folded into it, of those behind it that may be affine, each the only one to read
    the one before; itself where that is nothing."""
    weight = _weight(node)
    if weight is None:
        return node, ()
    behind, last = list[Node](), node
    while (user := only_user(users, outputs, last.outputs[0])) is not None and may_be_affine(user):
        behind.append(user)
        last = user
    if not behind:
        return node, ()
    kept = digits or len(behind) == 1 or isinstance(weight, RoundedConstant)  # one bias gives them up afterwards
    return folded_nodes((node, *behind), kept, lambda: _followed(node, _chain(node, behind), kept))


def _chain(node: Node, behind: Sequence[Node]) -> list[tuple[Node, Affine]]:
    """The first of the nodes behind one with weights that are affine, and what they do."""
    found: list[tuple[Node, Affine]] = []
    before = node
    for user in behind:
        affine = _affine(user, before.output, node)
        if affine is None:
            break
        found.append((user, affine))
        before = user
    return found


def _followed(node: Node, chain: Sequence[tuple[Node, Affine]], digits: bool) -> tuple[Node, tuple[Node, ...]]:
    """The node with as many of those behind it folded in as can be, and these."""
    made = _at_once(node, chain, digits) if len(chain) > 1 else None
    if made is not None:
        return made, tuple(user for user, _ in chain)
    taken: list[Node] = []
    for user, affine in chain:
        made = _with(node, user, affine, digits)
        if made is None:
            break
        node = made
        taken.append(user)
    return node, tuple(taken)


def refolded(node: Node, users: Sequence[Node]) -> Node | None:
    """The node with all of `users` folded into it; None where that cannot be."""
    folded: Node | None = node
    for user in users:
        affine = None if folded is None else _affine(user, folded.output, folded)
        folded = None if folded is None or affine is None else _with(folded, user, affine)
    return folded


def takes_up(node: Node, user: Node) -> bool:
    """Whether `user` has the form of what is folded into `node`, whatever the numbers."""
    return _weight(node) is not None and _affine(user, node.output, node) is not None


def _weight(node: Node) -> Value | None:
    """The constant a node multiplies by, as it is folded into."""
    product = get_op(node.op).product
    form = None if product is None else product.form(node, node.output.name)
    return None if form is None else form["weight"]


def _affine(node: Node, result: Value, before: Node) -> Affine | None:
    """What `node` does to each output channel of `before`, which `result` has, or None when it does something else."""
    product = get_op(before.op).product
    if product is None or not may_be_affine(node):
        return None
    return gain_and_offset(as_stated(node), result, product.axis % max(result.type.rank, 1))


def _with(node: Node, user: Node, affine: Affine, digits: bool = False) -> Node | None:
    """The convolution or product with `affine` folded in, making what `user` made; None where fp16 does not hold what
    would become its weights and bias."""
    gain, offset = affine
    name, product = user.output.name, get_op(node.op).product
    made = None if product is None else product.form(node, name)
    if product is None or made is None:
        return None
    weight, bias = made["weight"], made.get("bias")
    seen = _Channels.of(weight, (gain,), product)
    shift = (0 if bias is None else numbers(bias).astype(np.float64)) * gain + offset
    if not (_largest(shift) < OVERFLOW and (was_folded(weight, product, seen.key) or seen.take_gains())):
        return None
    return _made(made, user, seen, weight, shift if shift.any() or bias is not None else None, digits)


def _made(form: Node, user: Node, seen: _Channels, weight: Value, shift: np.ndarray | None, digits: bool) -> Node:
    """The convolution or product that makes what `user` made, with a weight that took its gains, and a bias."""
    name, operands = user.output.name, dict(form.operands)
    if seen.changed:
        scaled_weight = folded(weight, seen.product, seen.key, seen.scaled)
        operands["weight"] = replace(scaled_weight, name=f"{name}_weight")
    if shift is not None:
        operands["bias"] = rounded(f"{name}_bias", shift, weight, digits)
    return Node(form.op, operands, user.outputs, form.name, form.source)


def _at_once(node: Node, chain: Sequence[tuple[Node, Affine]], digits: bool) -> Node | None:
    """As `_with`, for several nodes behind a weight of which all digits are known: it is rounded once, behind the last
    of them. None where fp16 does not hold it behind each of them, and where it is rounded each time."""
    last, product = chain[-1][0], get_op(node.op).product
    form = None if product is None else product.form(node, last.output.name)
    weight = None if form is None else form["weight"]
    if product is None or form is None or not isinstance(weight, RoundedConstant) or weight.dtype != "fp16":
        return None
    gains, shifts = _steps(form.get("bias"), [affine for _, affine in chain])
    seen = _Channels.of(weight, gains, product)
    if not (_largest(np.concatenate(shifts)) < OVERFLOW and seen.take_each(weight)):
        return None
    biased = form.get("bias") is not None or any(map(np.any, shifts))
    return _made(form, last, seen, weight, shifts[-1] if biased else None, digits)


def _steps(bias: Value | None, chain: Sequence[Affine]) -> tuple[tuple[np.ndarray, ...], list[np.ndarray]]:
    """The gains that are not 1, and what is added to each output channel behind each node, float64."""
    shift, shifts = np.zeros(1) if bias is None else numbers(bias).astype(np.float64), list[np.ndarray]()
    for gain, offset in chain:
        shift = shift * gain + offset
        shifts.append(shift)
    return tuple(gain for gain, _ in chain if (gain != 1).any()), shifts


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
    """A weight and the gains its output channels take, one after the other; whether a gain is not 1; and what tells
    these gains from others."""

    weight: Value
    gains: tuple[np.ndarray, ...]
    product: Product
    changed: bool
    key: bytes

    @staticmethod
    def of(weight: Value, gains: tuple[np.ndarray, ...], product: Product) -> _Channels:
        """The channels of a weight."""
        return _Channels(weight, gains, product, any((gain != 1).any() for gain in gains),
                         b"".join(gain.tobytes() for gain in gains))

    def _seen(self, weight: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
        """A view of the weight's numbers, and the gains as they are broadcast to it."""
        view, shape = self.product.by_channel(weight, len(self.gains[0]))
        return view, [gain.reshape(shape) for gain in self.gains]

    def take_gains(self) -> bool:
        """Whether fp16 holds the weight times its gain, which is one."""
        late = isinstance(self.weight, LateConstant)
        if self.weight.dtype == "fp16" and not self.changed:
            return late or halves_finite(self.weight.array())
        if self._held_by_peak():
            return True
        peaks, (gain,) = self._peaks(numbers(self.weight) if late else self.weight.array())
        return _holds(to_half(peaks) if late else peaks, gain)

    def take_each(self, like: RoundedConstant) -> bool:
        """Whether fp16 holds the weight, which is `like`, times the first gain, and then times the next ones. Rounding
        keeps the order of numbers, so that the largest of a channel stays it."""
        if not self.changed or was_folded(like, self.product, self.key) or self._held_by_peak():
            return True
        exact, gains = self._peaks(like.digits())
        peaks = to_half(exact) if isinstance(like, LateConstant) else self._peaks(like.array())[0]
        for gain in gains:
            if not _holds(peaks, gain):
                return False
            exact = exact * np.abs(gain).astype(np.float32)
            peaks = to_half(exact)
        return True

    def _held_by_peak(self) -> bool:
        """Whether the largest number of the weight is known, and says by itself that fp16 holds the weight times each
        gain, with its digits: that number does, and none becomes too large."""
        like = self.weight
        if not isinstance(like, LateConstant):
            return False
        seen, gains = self._seen(like.digits())
        largest, place = like.peak()
        if seen.shape != like.shape or largest < SMALLEST_NORMAL:
            return False
        low = high = largest
        for gain in gains:
            sizes = np.abs(gain)
            at = zip(np.unravel_index(place, seen.shape), sizes.shape, strict=True)
            own = float(sizes[tuple(min(int(where), extent - 1) for where, extent in at)])
            low, high = low * own * (1 - ROUNDED), high * float(sizes.max()) * (1 + ROUNDED)
            if not (high < OVERFLOW and low >= SMALLEST_NORMAL):
                return False
        return True

    def _peaks(self, weight: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
        """The largest magnitude of each output channel, NaN where one is NaN, and the gains, as they are broadcast to
        the weight, whose numbers these are."""
        seen, gains = self._seen(weight)
        axes = tuple(axis for axis in range(seen.ndim) if gains[0].shape[axis] == 1)
        if weight.dtype == np.float16:  # the bits of magnitudes are in the order of the numbers, NaN last
            bits = np.abs(seen).view(np.uint16)
            return np.asarray(bits.max(axis=axes, keepdims=True, initial=0)).view(np.float16), gains
        ends = seen.max(axis=axes, keepdims=True, initial=0), seen.min(axis=axes, keepdims=True, initial=0)
        return np.asarray(np.maximum(ends[0], -ends[1])), gains

    def scaled(self) -> Value:
        """The weight with every output channel times its gains, rounded once. Its digits, which take twice the memory,
        are computed again where more is folded."""
        like = self.weight
        if not isinstance(like, RoundedConstant):
            return constant(like.name, self._scaled_halves(like.array()), like)
        made = constant(like.name, self._rounded(like), like)
        return ScaledConstant(made.name, made.type, made.array(), stated=partial(self._products, like), weight=like,
                              gains=self.gains, product=self.product)

    def _products(self, like: RoundedConstant) -> np.ndarray:
        """All digits of the weight times its gains, float32."""
        stated = like.digits()
        seen, (first, *others) = self._seen(stated)
        result = np.empty(stated.shape, np.float32)
        target = self._seen(result)[0]
        np.multiply(seen, first.astype(np.float32), out=target)
        for gain in others:
            np.multiply(target, gain.astype(np.float32), out=target)
        return result

    def _rounded(self, like: RoundedConstant) -> np.ndarray:
        """`_products` in the type of the weight, a part at a time."""
        stated = like.digits()
        result = np.empty_like(stated if isinstance(like, LateConstant) else like.array(), numpy_type(like.dtype))
        seen, gains = self._seen(stated)
        target = self._seen(result)[0]
        if _turned(target):
            seen, target, *gains = (each.T for each in (seen, target, *gains))
        put_products(target, seen, [gain.astype(np.float32) for gain in gains])
        return result

    def _scaled_halves(self, weight: np.ndarray) -> np.ndarray:
        """The weight times its gain, computed in float64 and rounded."""
        seen, (gain,) = self._seen(weight)
        result = np.empty_like(weight)
        if weight.dtype == np.float16:
            target = self._seen(result)[0]
            half_products(*((seen.T, gain.T, target.T) if _turned(target) else (seen, gain, target)))
            return result
        with np.errstate(over="ignore"):
            np.multiply(seen, gain, out=self._seen(result)[0], dtype=np.float64, casting="unsafe")
        return result


def _turned(array: np.ndarray) -> bool:
    """Whether a matrix lies in memory column by column."""
    return array.ndim == 2 and array.flags.f_contiguous and not array.flags.c_contiguous


def _holds(peaks: np.ndarray, gain: np.ndarray) -> bool:
    """Whether fp16 holds a weight of these largest magnitudes times a gain, as broadcast to it, with its digits."""
    wide = peaks.astype(np.float64)
    largest, scaled = float(wide.max(initial=0)), float((wide * np.abs(gain)).max(initial=0))
    return scaled < OVERFLOW and _resolved(largest, scaled)
