"""conv: convolution over one, two or three spatial axes.

x [N, Cin, *spatial], weight [Cout, Cin / groups, *kernel], bias [Cout] -> [N, Cout, *results].
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import numpy as np

from openane.engine import Binary
from openane.graph import Node, Operand, TensorType, Value
from openane.ops.gradients import Backward, only
from openane.ops.lowering import Lowering, Tensor
from openane.ops.operands import Arguments, refusal
from openane.ops.rewriter import Rewriter
from openane.ops.rules import ENGINE
from openane.ops.spec import Op, OperationEvidence, Parameter, Product, Upstream
from openane.ops.taps import product_of_columns, unfolded, weight_gradient
from openane.ops.weights import as_it_is, by_channel, channels_first, without
from openane.ops.window import Window, make_window, read_window

PARAMETERS = (
    Parameter("x"), Parameter("weight"), Parameter("bias", const=True, default=None),
    Parameter("strides", const=True, default=None, kind="int32"),
    Parameter("pad_type", const=True, default="valid", kind="string"),
    Parameter("pad", const=True, default=None, kind="int32"),
    Parameter("dilations", const=True, default=None, kind="int32"),
    Parameter("groups", const=True, default=1, kind="int32"),
)
COLUMNS = 1 << 20
"""Elements of the windows that the reference lays out at a time."""


def conv_window(operands: Mapping[str, Operand]) -> Window:
    """Kernel, strides, dilations and padding of a conv node's operands. GraphError when they do not fit."""
    arguments = Arguments("conv", PARAMETERS, operands)
    x, weight = arguments.tensor("x", ranks=(3, 5)), arguments.tensor("weight", ranks=(3, 5))
    return read_window(arguments, x.shape[2:], weight.shape[2:])


def _infer(operands: Mapping[str, Operand]) -> tuple[TensorType, ...]:
    arguments = Arguments("conv", PARAMETERS, operands)
    x = arguments.tensor("x", ranks=(3, 5))
    weight = arguments.tensor("weight", (x.dtype,), (x.type.rank, x.type.rank))
    groups = arguments.integer("groups", 1)
    if x.shape[1] % groups or weight.shape[0] % groups:
        raise refusal("conv", "groups", f"must divide the {x.shape[1]} channels of x and the {weight.shape[0]} of the "
                      "result", groups)
    if weight.shape[1] != x.shape[1] // groups:
        raise refusal("conv", "weight", f"must have x's channels / groups = {x.shape[1]} / {groups} = "
                      f"{x.shape[1] // groups} as its second dimension", list(weight.shape))
    arguments.like("bias", x, (weight.shape[0],))
    return (TensorType(x.dtype, (x.shape[0], weight.shape[0], *conv_window(operands).results)),)


def patches(x: np.ndarray, window: Window) -> np.ndarray:
    """Every window of x [N, C, *spatial] as a view [N, C, *results, *kernel]; zeros where it reaches into padding."""
    spatial = len(window.axes)
    padded = _padded(x, window) if any(map(any, window.padding)) else x
    reach = tuple(axis.reach for axis in window.axes)
    steps = tuple(slice(None, None, axis.stride) for axis in window.axes)
    if all(extent == 1 for extent in reach):
        return padded[(slice(None), slice(None), *steps, *(None,) * spatial)]
    views = np.lib.stride_tricks.sliding_window_view(padded, reach, tuple(range(2, 2 + spatial)))
    taps = tuple(slice(None, None, axis.dilation) for axis in window.axes)
    return views[(slice(None), slice(None), *steps, *taps)]


def _padded(x: np.ndarray, window: Window) -> np.ndarray:
    """x with zeros around it: what np.pad gives, in a tenth of the time where x is small."""
    around = [(before, extent, after) for extent, (before, after) in zip(x.shape[2:], window.padding, strict=True)]
    result = np.zeros((*x.shape[:2], *map(sum, around)), x.dtype)
    result[(slice(None), slice(None), *(slice(before, before + extent) for before, extent, _ in around))] = x
    return result


def _reference(*, x: np.ndarray, weight: np.ndarray, bias: np.ndarray | None, strides: np.ndarray | None, pad_type: str,
               pad: np.ndarray | None, dilations: np.ndarray | None, groups: np.ndarray) -> tuple[np.ndarray, ...]:
    spatial, count = x.ndim - 2, int(groups)
    window = make_window("conv", x.shape[2:], weight.shape[2:], pad_type=pad_type, strides=_ints(strides),
                         dilations=_ints(dilations), pad=_ints(pad))
    views = patches(x, window)
    taps = tuple(range(2 + spatial, 2 + 2 * spatial))
    columns = views.transpose(0, 1, *taps, *range(2, 2 + spatial))
    rows = weight.reshape(count, weight.shape[0] // count, -1)
    result = np.empty((x.shape[0], weight.shape[0], *window.results), np.float32)
    step = max(1, COLUMNS * window.results[0] // max(1, columns[0].size))
    for sample, target in zip(columns, result, strict=True):
        for start in range(0, window.results[0], step):
            part = sample[(slice(None),) * (1 + spatial) + (slice(start, start + step),)]
            pixels = part.reshape(count, rows.shape[2], -1)
            if step >= window.results[0]:
                np.matmul(rows, pixels, out=target.reshape(*rows.shape[:2], -1))
            else:
                made = target[:, start:start + step]
                made[...] = (rows @ pixels).reshape(made.shape)
    if bias is not None:
        result += bias.reshape(-1, *(1,) * spatial)
    return (result,)


def _ints(values: np.ndarray | None) -> tuple[int, ...]:
    return () if values is None else tuple(int(value) for value in values)


def _lower(node: Node, lowering: Lowering) -> None:
    """One convolution; more where kernel, stride, dilation or sizes go beyond what one operation does."""
    arguments = Arguments("conv", PARAMETERS, node.operands)
    bias = arguments.constant("bias")
    vector = bias if isinstance(bias, np.ndarray) else None
    if not node["weight"].constant:
        _lower_runtime(node, lowering, vector)
        return
    window = conv_window(node.operands)
    value, post, table = lowering.followers(node)
    lowering.convolution(lowering.result(value), lowering.read(node["x"]), node["weight"].array(), vector,
                         stride=window.steps, padding=[before for before, _ in window.padding],
                         dilation=window.dilations, groups=arguments.integer("groups", 1), post=post, table=table)


def _lower_runtime(node: Node, lowering: Lowering, bias: np.ndarray | None) -> None:
    """All images in one product; one for each, weight [Cout, Cin] times pixels [Cin, *spatial] in a row, where there is
    one image of whole rows or sizes ask for it."""
    x, weight = node["x"], node["weight"]
    groups, images = Arguments("conv", PARAMETERS, node.operands).integer("groups", 1), x.shape[0]
    matrix = lowering.scratch((groups, weight.shape[0] // groups, weight.shape[1]))
    lowering.reshape(lowering.unshaped(weight), matrix)
    row = (images, groups, weight.shape[1], prod(x.shape[2:]))
    flat = images == 1 and lowering.unshaped(x).reshape(row) is not None
    if flat or not _together(node, lowering, matrix):
        pixels = lowering.scratch(row)
        lowering.reshape(lowering.unshaped(x), pixels)
        lowering.runtime_product(node.output, matrix.expand((images, *matrix.shape)), pixels)
    if bias is not None:
        result = lowering.read(node.output)
        vector = lowering.constant(bias.reshape(-1, *(1,) * (result.rank - 2)))
        lowering.elementwise(result, result, vector, Binary.ADD)


def _together(node: Node, lowering: Lowering, matrix: Tensor) -> bool:
    """Whether the engine takes all images at once, which it is then told to."""
    x = node["x"]
    flat = (prod(x.shape[2:-1]), x.shape[-1])
    source = lowering.read(x).reshape((*x.shape[:2], *flat))
    target = lowering.result(node.output).reshape((*node.output.shape[:2], *flat))
    return source is not None and target is not None and lowering.runtime_convolution(target, matrix, source)


def _gradient(node: Node, upstream: Upstream, backward: Backward) -> Mapping[str, Operand]:
    """By x: the transposed convolution. By the weight: a product with the unfolded x. By the bias: sums per channel."""
    x, weight, bias, given = node["x"], node["weight"], node.get("bias"), only(upstream)
    found: dict[str, Operand] = {}
    groups = Arguments("conv", PARAMETERS, node.operands).integer("groups", 1)
    window = conv_window(node.operands)
    if backward.wants(x):
        found["x"] = _transposed(backward, given, weight, x, window, groups)
    if backward.wants(weight):
        found["weight"] = weight_gradient(backward, unfolded(backward, x, window), given, weight.shape, groups)
    if bias is not None and backward.wants(bias):
        found["bias"] = backward.single("reduce_sum", x=given, axes=[0, *range(2, given.type.rank)], keep_dims=False)
    return found


def _transposed(backward: Backward, given: Value, weight: Value, x: Value, window: Window, groups: int) -> Value:
    return backward.single(
        "conv_transpose", x=given, weight=backward.loose(weight), output_shape=list(x.shape),
        strides=list(window.strides), dilations=list(window.dilations), groups=groups, pad_type="custom",
        pad=[count for pair in window.padding for count in pair])


def _computed(node: Node, rewriter: Rewriter) -> tuple[Value, ...] | None:
    """The product of the unfolded x, where the weight is no constant, and a sum with a bias per channel. A product per
    image takes its weight as it is."""
    weight, bias = node["weight"], node.get("bias")
    groups, axes = Arguments("conv", PARAMETERS, node.operands).integer("groups", 1), conv_window(node.operands).axes
    plain = (groups == 1 or groups < weight.shape[0]) and all(
        axis.kernel == axis.stride == 1 and axis.before == axis.after == 0 for axis in axes)
    if plain and (bias is None or bias.constant):
        return None
    if weight.constant or plain:
        result = without(node, rewriter, ("bias",))
    else:
        columns = unfolded(rewriter, node["x"], conv_window(node.operands))
        result = product_of_columns(rewriter, columns, weight, groups)
    return (by_channel(rewriter, "add", result, bias),)


OPS = (Op("conv", PARAMETERS, _infer, _reference, lower=_lower, rules=ENGINE,
          evidence=OperationEvidence.APPLE, gradient=_gradient, product=Product(1, as_it_is, channels_first),
          sums_products=True, weights=("weight", "bias"), computed=_computed,
          channels_of={"weight": lambda node: 0}, relayout=(
              "cut the image into patches, or join results", "hand the image over in patches, (1, C*k*k, H/k, W/k) for "
              "a stride of k, or shuffle pixels into channels, so that the convolution is 1x1"),
          note="Apple-made programs show stride 1, and stride 2 with kernels 1x1 and 3x3 and one group; larger kernels "
               "at stride 2 follow the same rule (inferred), everything else is composed of these. A "
               "weight that the program computes is multiplied with the image, which is unfolded where taps are not "
               "1x1."),)
