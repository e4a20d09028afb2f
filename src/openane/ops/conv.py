"""conv: convolution over one, two or three spatial axes.

x [N, Cin, *spatial], weight [Cout, Cin / groups, *kernel], bias [Cout] -> [N, Cout, *results].
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from openane.chips import Limits
from openane.graph import Node, Operand, TensorType
from openane.ops.lowering import Lowering, Tensor
from openane.ops.operands import Arguments, refusal
from openane.ops.pad import widened
from openane.ops.rules import ENGINE
from openane.ops.spec import Op, Parameter
from openane.ops.window import Window, make_window, read_window

PARAMETERS = (
    Parameter("x"), Parameter("weight"), Parameter("bias", const=True, default=None),
    Parameter("strides", const=True, default=None, kind="int32"),
    Parameter("pad_type", const=True, default="valid", kind="string"),
    Parameter("pad", const=True, default=None, kind="int32"),
    Parameter("dilations", const=True, default=None, kind="int32"),
    Parameter("groups", const=True, default=1, kind="int32"),
)


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
    padded = np.pad(x, ((0, 0), (0, 0), *window.padding))
    reach = tuple(axis.reach for axis in window.axes)
    views = np.lib.stride_tricks.sliding_window_view(padded, reach, tuple(range(2, 2 + spatial)))
    steps = tuple(slice(None, None, axis.stride) for axis in window.axes)
    taps = tuple(slice(None, None, axis.dilation) for axis in window.axes)
    return views[(slice(None), slice(None), *steps, *taps)]


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
    for sample, target in zip(columns, result, strict=True):
        product = rows @ sample.reshape(count, rows.shape[2], -1)
        target[...] = product.reshape(target.shape)
    return (result if bias is None else result + bias.reshape(-1, *(1,) * spatial),)


def _ints(values: np.ndarray | None) -> tuple[int, ...]:
    return () if values is None else tuple(int(value) for value in values)


def constant_weight(node: Node, limits: Limits) -> bool:
    """The weight must be a constant."""
    return node["weight"].constant


def two_spatial_axes(node: Node, limits: Limits) -> bool:
    """There must be one or two spatial axes."""
    return node["x"].type.rank <= 4


def kernel_fits(node: Node, limits: Limits) -> bool:
    """The kernel, its dilation included, may be at most {kernel_width} wide and {kernel_height} high."""
    axes = conv_window(node.operands).axes
    return axes[-1].reach <= limits.kernel_width and all(axis.reach <= limits.kernel_height for axis in axes[-2:-1])


def strides_fit(node: Node, limits: Limits) -> bool:
    """Strides may be at most {stride} along axes with more than one result."""
    return max(conv_window(node.operands).steps) <= limits.stride


def padding_fits(node: Node, limits: Limits) -> bool:
    """Padding may be at most {padding} elements before each axis."""
    return all(before <= limits.padding for before, _ in conv_window(node.operands).padding)


def dilated(weight: np.ndarray, dilations: Sequence[int]) -> np.ndarray:
    """Weights [Cout, Cin, *kernel] with zeros between the taps."""
    kernel = tuple((extent - 1) * step + 1 for extent, step in zip(weight.shape[2:], dilations, strict=True))
    spread = np.zeros((*weight.shape[:2], *kernel), weight.dtype)
    taps = tuple(slice(None, None, step) for step in dilations)
    spread[(slice(None), slice(None), *taps)] = weight
    return spread


def as_planes(tensor: Tensor) -> Tensor:
    """[N, C, W] as [N, C, 1, W]; [N, C, H, W] as it is."""
    if tensor.rank == 4:
        return tensor
    (n, c, w), (sn, sc, sw) = tensor.shape, tensor.strides
    return Tensor(tensor.slot, tensor.offset, (n, c, 1, w), (sn, sc, 0, sw), tensor.space)


def planes(numbers: Sequence[int], fill: int = 1) -> tuple[int, int]:
    """One number per spatial axis as (height, width)."""
    return (numbers[0], numbers[1]) if len(numbers) == 2 else (fill, numbers[0])


def _lower(node: Node, lowering: Lowering) -> None:
    """One convolution (more when the weights exceed one operation); dilation becomes zeros in the kernel, and padding
    that whole windows lie in becomes zeros in the source."""
    window, arguments = conv_window(node.operands), Arguments("conv", PARAMETERS, node.operands)
    source, pads = lowering.read(node["x"]), [before for before, _ in window.padding]
    if not all(axis.real for axis in window.axes):
        source, pads = widened(lowering, source, ((0, 0), (0, 0), *window.padding)), [0] * len(pads)
    weight = dilated(node["weight"].array(), window.dilations)
    bias = arguments.constant("bias")
    value, post, table = lowering.followers(node)
    lowering.convolution(
        as_planes(lowering.result(value)), as_planes(source),
        weight if weight.ndim == 4 else weight[:, :, None, :], bias if isinstance(bias, np.ndarray) else None,
        stride=planes(window.steps), padding=planes(pads, 0),
        groups=arguments.integer("groups", 1), post=post, table=table)


OPS = (Op("conv", PARAMETERS, _infer, _reference, lower=_lower,
          rules=(*ENGINE, constant_weight, two_spatial_axes, kernel_fits, strides_fit, padding_fits)),)
