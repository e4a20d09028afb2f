"""conv_transpose: the transposed convolution (deconvolution) over one, two or three spatial axes.

x [N, Cin, *spatial], weight [Cin, Cout / groups, *kernel], bias [Cout] -> [N, Cout, *results]. Every element of x adds
the kernel, times its value, to the results stride * index - padding and on, taps `dilations` apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np

from openane.chips import Limits
from openane.graph import Node, Operand, TensorType, Value
from openane.ops.gradients import Backward, only
from openane.ops.lowering import Lowering, Tensor
from openane.ops.operands import MAXIMUM_ELEMENTS, Arguments, refusal
from openane.ops.phases import interleaved
from openane.ops.rewriter import Rewriter
from openane.ops.rules import ENGINE
from openane.ops.spec import Op, Parameter, Product, Upstream
from openane.ops.taps import folded, product_of_columns, unfolded, unfolded_results, weight_gradient
from openane.ops.weights import as_it_is, by_channel, without
from openane.ops.window import make_window
from openane.record_classes import dataclass
from openane.rounding import ceil_div, round_up

PAD_TYPES = ("valid", "same", "custom")
MAXIMUM_WEIGHTS = 1 << 28
PARAMETERS = (
    Parameter("x"), Parameter("weight"), Parameter("bias", const=True, default=None),
    Parameter("pad", const=True, default=None, kind="int32"),
    Parameter("output_shape", const=True, default=None, kind="int32"),
    Parameter("pad_type", const=True, default="valid", kind="string"),
    Parameter("strides", const=True, default=None, kind="int32"),
    Parameter("dilations", const=True, default=None, kind="int32"),
    Parameter("groups", const=True, default=1, kind="int32"),
)


@dataclass(frozen=True, slots=True)
class TransposedAxis:
    """One spatial axis: element i of x reaches full results stride * i to stride * i + reach - 1; the first `before`
    full results are cropped, `result` are kept."""

    extent: int
    kernel: int
    stride: int
    dilation: int
    before: int
    result: int

    @property
    def reach(self) -> int:
        """Results from the first to the last tap, both included."""
        return (self.kernel - 1) * self.dilation + 1


def _axis(extent: int, kernel: int, stride: int, dilation: int, pads: tuple[int, int] | None,
          stated: int | None) -> TransposedAxis:
    """`pads` None is the padding `same`: stride * extent results, the smaller half cropped in front."""
    full = (extent - 1) * stride + (kernel - 1) * dilation + 1
    if pads is None:
        result = extent * stride if stated is None else stated
        return TransposedAxis(extent, kernel, stride, dilation, max(full - result, 0) // 2, result)
    return TransposedAxis(extent, kernel, stride, dilation, pads[0], full - sum(pads) if stated is None else stated)


def _axes(extents: Sequence[int], kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int],
          pad_type: str, pad: Sequence[int], stated: Sequence[int] | None) -> tuple[TransposedAxis, ...]:
    axes = []
    for i, extent in enumerate(extents):
        pads = (pad[2 * i], pad[2 * i + 1]) if pad_type == "custom" else (0, 0)
        axes.append(_axis(extent, kernel[i], strides[i], dilations[i], None if pad_type == "same" else pads,
                          None if stated is None else stated[2 + i]))
        if axes[-1].result < 1:
            raise refusal("conv_transpose", "pad", f"must leave at least one result along spatial axis {i}",
                          axes[-1].result)
    return tuple(axes)


def transposed_axes(operands: Mapping[str, Operand]) -> tuple[TransposedAxis, ...]:
    """The spatial axes of a node with these operands. GraphError when they do not fit."""
    arguments = Arguments("conv_transpose", PARAMETERS, operands)
    x, weight = arguments.tensor("x", ranks=(3, 5)), arguments.tensor("weight", ranks=(3, 5))
    ones = (1,) * (x.type.rank - 2)
    pad_type = arguments.text("pad_type", PAD_TYPES)
    if pad_type == "custom" and not arguments.given("pad"):
        raise refusal("conv_transpose", "pad", "must be given when pad_type is custom")
    pad = arguments.vector("pad", (0,) * (2 * len(ones)), minimum=0)
    stated = arguments.integers("output_shape", count=x.type.rank, minimum=1)
    return _axes(x.shape[2:], weight.shape[2:], arguments.vector("strides", ones, minimum=1),
                 arguments.vector("dilations", ones, minimum=1), pad_type, pad, stated)


def _infer(operands: Mapping[str, Operand]) -> tuple[TensorType, ...]:
    arguments = Arguments("conv_transpose", PARAMETERS, operands)
    x = arguments.tensor("x", ranks=(3, 5))
    weight = arguments.tensor("weight", (x.dtype,), (x.type.rank, x.type.rank))
    groups = arguments.integer("groups", 1)
    if weight.shape[0] != x.shape[1] or x.shape[1] % groups:
        raise refusal("conv_transpose", "weight", f"must have x's {x.shape[1]} channels as its first dimension, a "
                      f"multiple of groups = {groups}", list(weight.shape))
    channels = weight.shape[1] * groups
    arguments.like("bias", x, (channels,))
    shape = (x.shape[0], channels, *(axis.result for axis in transposed_axes(operands)))
    stated = arguments.integers("output_shape")
    if stated is not None and stated[:2] != shape[:2]:
        raise refusal("conv_transpose", "output_shape", f"must begin with {list(shape[:2])}", list(stated))
    if prod(axis.extent * axis.stride + axis.reach for axis in transposed_axes(operands)) > MAXIMUM_ELEMENTS:
        raise refusal("conv_transpose", "strides", f"must keep a channel within {MAXIMUM_ELEMENTS} results")
    return (TensorType(x.dtype, shape),)


def weights_fit(node: Node, limits: Limits) -> bool:
    """The weights, every kernel rounded up to whole strides, must number at most 268435456."""
    taps = prod(round_up(axis.reach, axis.stride) for axis in transposed_axes(node.operands))
    return prod(node["weight"].shape[:2]) * taps <= MAXIMUM_WEIGHTS


def _reference(*, x: np.ndarray, weight: np.ndarray, bias: np.ndarray | None, pad: np.ndarray | None,
               output_shape: np.ndarray | None, pad_type: str, strides: np.ndarray | None,
               dilations: np.ndarray | None, groups: np.ndarray) -> tuple[np.ndarray, ...]:
    """Tap by tap: x times one weight is added to every stride-th full result."""
    ones, count = (1,) * (x.ndim - 2), int(groups)
    axes = _axes(x.shape[2:], weight.shape[2:], _ints(strides, ones), _ints(dilations, ones), pad_type,
                 _ints(pad, (0,) * (2 * len(ones))), None if output_shape is None else _ints(output_shape, ()))
    full = np.zeros((x.shape[0], count, weight.shape[1], *(
        max((axis.extent - 1) * axis.stride + axis.reach, axis.before + axis.result) for axis in axes)), np.float32)
    parts = x.reshape(x.shape[0], count, -1, *x.shape[2:])
    for tap in product(*(range(axis.kernel) for axis in axes)):
        chosen: tuple[Any, ...] = (slice(None), slice(None), *tap)
        kernel = weight[chosen].reshape(count, -1, weight.shape[1])
        places: tuple[Any, ...] = (..., *(
            slice(t * axis.dilation, t * axis.dilation + (axis.extent - 1) * axis.stride + 1, axis.stride)
            for t, axis in zip(tap, axes, strict=True)))
        full[places] += np.einsum("ngi...,gio->ngo...", parts, kernel)
    inside: tuple[Any, ...] = (..., *(slice(axis.before, axis.before + axis.result) for axis in axes))
    kept = full[inside]
    result = kept.reshape(x.shape[0], -1, *kept.shape[3:])
    return (result if bias is None else result + bias.reshape(-1, *ones),)


def _ints(values: np.ndarray | None, default: tuple[int, ...]) -> tuple[int, ...]:
    return default if values is None else tuple(int(value) for value in values)


@dataclass(frozen=True, slots=True)
class _Phases:
    """A stride-1 convolution that makes every phase of the results of one axis: `taps` reach over x, `padding` zeros
    before it, `count` blocks of results, of which those from `start` on are kept."""

    taps: int
    padding: int
    count: int
    start: int

    @staticmethod
    def of(axis: TransposedAxis) -> _Phases:
        """Result stride * m + r is the sum over k of weight stride * k + r times x[m - k]."""
        taps = ceil_div(axis.reach, axis.stride)
        first = min(axis.before // axis.stride, taps - 1)
        last = (axis.before + axis.result - 1) // axis.stride
        return _Phases(taps, taps - 1 - first, last - first + 1, axis.before - first * axis.stride)


def _phase_weights(weight: np.ndarray, axes: Sequence[TransposedAxis], groups: int) -> np.ndarray:
    """weight [Cin, Cout / groups, *kernel] as [groups * phases * Cout / groups, Cin / groups, *taps]."""
    inputs, outputs = weight.shape[:2]
    phases = [_Phases.of(axis) for axis in axes]
    whole = np.zeros((inputs, outputs, *(p.taps * axis.stride for p, axis in zip(phases, axes, strict=True))),
                     weight.dtype)
    taken: tuple[Any, ...] = (..., *(slice(0, axis.reach, axis.dilation) for axis in axes))
    whole[taken] = weight
    spatial = len(axes)
    blocks = whole.reshape(groups, inputs // groups, outputs, *(
        extent for p, axis in zip(phases, axes, strict=True) for extent in (p.taps, axis.stride)))
    taps, steps = range(3, 3 + 2 * spatial, 2), range(4, 4 + 2 * spatial, 2)
    ordered = blocks.transpose(0, *steps, 2, 1, *taps)
    flipped = np.flip(ordered, tuple(range(ordered.ndim - spatial, ordered.ndim)))
    return flipped.reshape(-1, inputs // groups, *(p.taps for p in phases))


def _lower(node: Node, lowering: Lowering) -> None:
    """One convolution of stride 1 whose channels are the phases of the results, and a copy that interleaves them."""
    arguments = Arguments("conv_transpose", PARAMETERS, node.operands)
    groups, axes, bias = arguments.integer("groups", 1), transposed_axes(node.operands), arguments.constant("bias")
    weights = _phase_weights(node["weight"].array(), axes, groups)
    value, post, table = lowering.followers(node)
    target, phases = lowering.result(value), [_Phases.of(axis) for axis in axes]
    steps = [axis.stride for axis in axes]
    each = node["weight"].shape[1]
    vector = None
    if isinstance(bias, np.ndarray):
        vector = np.broadcast_to(bias.reshape(groups, 1, each), (groups, prod(steps), each)).reshape(-1)
    whole = prod(steps) == 1 and all(phase.start == 0 for phase in phases)
    made = target if whole else lowering.scratch((target.shape[0], len(weights), *(p.count for p in phases)))
    lowering.convolution(made, lowering.read(node["x"]), weights, vector, groups=groups,
                         padding=[phase.padding for phase in phases], post=post, table=table)
    if not whole:
        parts = _by_channel(made, groups, steps, each)
        interleaved(lowering, parts, steps, [phase.start for phase in phases], target)


def _by_channel(made: Tensor, groups: int, steps: Sequence[int], each: int) -> Tensor:
    """[N, groups * phases * each, *counts] as [N, groups, each, count, phase, count, phase, ...]."""
    plane, inner = made.strides[1], each * prod(steps)
    shape: list[int] = [made.shape[0], groups, each]
    strides = [made.strides[0], plane * inner, plane]
    step = plane * each
    phase_strides = []
    for count in reversed(steps):
        phase_strides.append(step)
        step *= count
    for extent, stride, count, phase in zip(made.shape[2:], made.strides[2:], steps, reversed(phase_strides),
                                            strict=True):
        shape += [extent, count]
        strides += [stride, phase]
    return made.seen(made.offset, tuple(shape), tuple(strides))


def _gradient(node: Node, upstream: Upstream, backward: Backward) -> Mapping[str, Operand]:
    """By x: a convolution over the full results, of which those that were cropped are padding. By the weight: as that
    convolution's, which makes x of the results. By the bias: sums per channel."""
    x, weight, given = node["x"], node["weight"], only(upstream)
    groups = Arguments("conv_transpose", PARAMETERS, node.operands).integer("groups", 1)
    found: dict[str, Operand] = {}
    if backward.wants(node.get("bias")):
        found["bias"] = backward.single("reduce_sum", x=given, axes=[0, *range(2, given.type.rank)], keep_dims=False)
    axes, pad, size = transposed_axes(node.operands), [], list(given.shape)
    for d, axis in enumerate(axes, 2):
        after = (axis.extent - 1) * axis.stride + axis.reach - axis.before - axis.result
        size[d] += min(after, 0)  # results beyond the last tap are 0 whatever x is
        pad += [axis.before, max(after, 0)]
    if size != list(given.shape):
        given = backward.single("slice_by_size", x=given, begin=[0] * len(size), size=size)
    strides, dilations = [axis.stride for axis in axes], [axis.dilation for axis in axes]
    if backward.wants(weight):
        window = make_window("conv", given.shape[2:], weight.shape[2:], pad_type="custom", strides=strides,
                             dilations=dilations, pad=pad)
        found["weight"] = weight_gradient(backward, unfolded(backward, given, window), x, weight.shape, groups)
    if backward.wants(x):
        found["x"] = backward.single("conv", x=given, weight=weight, strides=strides, pad_type="custom", pad=pad,
                                     dilations=dilations, groups=groups)
    return found


def _computed(node: Node, rewriter: Rewriter) -> tuple[Value, ...]:
    """The product of unfolded results, where the weight is no constant, and a sum with a bias per channel."""
    weight, groups = node["weight"], Arguments("conv_transpose", PARAMETERS, node.operands).integer("groups", 1)
    if weight.constant:
        result = without(node, rewriter, ("bias",))
    else:
        result = (_folded if _less_folded(node, groups) else _unfolded)(node, rewriter, groups)
    return (by_channel(rewriter, "add", result, node.get("bias")),)


def _less_folded(node: Node, groups: int) -> bool:
    """Whether what each tap adds to results is less than what lies under the taps of results."""
    x, result = node["x"], node.output
    return groups < x.shape[1] and result.shape[1] * prod(x.shape[2:]) <= x.shape[1] * prod(result.shape[2:])


def _unfolded(node: Node, rewriter: Rewriter, groups: int) -> Value:
    """One product with what lies under the taps of the results."""
    inputs, outputs, *kernel = node["weight"].shape
    matrix = rewriter.single("reshape", x=node["weight"], shape=[groups, inputs // groups, outputs, prod(kernel)])
    matrix = rewriter.single("transpose", x=matrix, perm=[0, 2, 1, 3])
    matrix = rewriter.single("reshape", x=matrix, shape=[groups * outputs, -1])
    return product_of_columns(rewriter, unfolded_results(rewriter, node), matrix, groups)


def _folded(node: Node, rewriter: Rewriter, groups: int) -> Value:
    """A product that makes what each tap adds to results, put in place and summed."""
    inputs, outputs, *kernel = node["weight"].shape
    matrix = rewriter.single("reshape", x=node["weight"], shape=[groups, inputs // groups, outputs * prod(kernel)])
    matrix = rewriter.single("transpose", x=matrix, perm=[0, 2, 1])
    matrix = rewriter.single("reshape", x=matrix, shape=[-1, inputs // groups, *(1,) * len(kernel)])
    return folded(rewriter, rewriter.single("conv", x=node["x"], weight=matrix, groups=groups), node)


def _channels_second(weight: np.ndarray, channels: int) -> tuple[np.ndarray, tuple[int, ...]]:
    """The weight by groups, whose output channels are its third dimension, and the shape of a vector of channels."""
    each = weight.shape[1]
    seen = weight.reshape(channels // each, -1, *weight.shape[1:])
    return seen, (-1, 1, each, *(1,) * (weight.ndim - 2))


OPS = (Op("conv_transpose", PARAMETERS, _infer, _reference, rules=(*ENGINE, weights_fit), lower=_lower,
          gradient=_gradient, product=Product(1, as_it_is, _channels_second, kept=False), sums_products=True,
          weights=("weight", "bias"), computed=_computed, channels_of={"weight": lambda node: 1}),)
