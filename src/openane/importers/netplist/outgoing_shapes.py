"""Nodes that look at more than one element as net.plist units: convolution, pooling, products and movement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from openane.graph import Node
from openane.importers.netplist.outgoing import Outgoing, refusal
from openane.importers.netplist.outgoing_elements import Writer, arguments, goc
from openane.ops import get_op
from openane.ops.conv import conv_window
from openane.ops.pool import pool_window
from openane.ops.slice import ranges_by_index
from openane.ops.spec import Op
from openane.ops.window import Window


def _window_keys(out: Outgoing, window: Window, after: Sequence[int] | None = None) -> dict[str, Any]:
    """Kernel, Step and Pad keys of a window."""
    axes = window.axes
    keys: dict[str, Any] = {f"Kernel{name}": extent for name, extent in
                            zip(("Depth", "Height", "Width")[5 - out.rank:], window.kernel, strict=True)}
    keys["Step"] = [*window.strides[-2:], *window.strides[:-2]]
    after = [axis.after for axis in axes] if after is None else after
    sides = (("Front", "Back"), ("Top", "Bot"), ("Left", "Right"))[5 - out.rank:]
    for (first, last), axis, behind in zip(sides, axes, after, strict=True):
        keys[f"Pad{first}"], keys[f"Pad{last}"] = axis.before, behind
    return keys


def _convolution(out: Outgoing, node: Node) -> None:
    weight, bias, name = node["weight"], node.get("bias"), out.names[id(node.output)]
    if not weight.constant:
        raise refusal(node, "kernels must be constant", weight.type, "a constant weight")
    window = conv_window(node.operands)
    params = {"Type": "Conv", "KernelType": "Float16", "KernelMode": "Dense", "KernelIndex": 0,
              "KernelOffset": out.store(weight.array()), "PaddingMode": "Zero", **_window_keys(out, window)}
    if window.dilations[:-2] not in ((), (1,)):
        raise refusal(node, "dilations reach along height and width only", list(window.dilations), "1 along depth")
    for axis, dilation in zip("YX", window.dilations[-2:], strict=True):
        if dilation != 1:
            params[f"KernelDilation{axis}"] = dilation
    groups = arguments(node).integer("groups", 1)
    own = name if bias is None else out.unique(f"{name}.product")
    extra = {"NumGroups": groups} if groups > 1 else {}
    out.unit("Conv", own, out.source(node, node["x"]), params, weight.shape[0], **extra)
    if bias is not None:
        goc(out, name, own, "Bias", bias.array().reshape(-1), node)


def _pooling(out: Outgoing, node: Node) -> None:
    window = pool_window(node.op, node.operands)
    mean = node.op == "avg_pool"
    exclude = mean and arguments(node).flag("exclude_padding_from_average")
    if mean and not exclude and any(axis.overhang for axis in window.axes):
        raise refusal(node, "a last window beyond the padding needs a divisor of its own", "ceil_mode true",
                      "exclude_padding_from_average true, or ceil_mode false")
    after = [max(0, axis.after + axis.overhang) for axis in window.axes]
    params = {"Type": "Avg" if mean else "Max", "PaddingMode": "Zero" if mean else "Negative",
              **_window_keys(out, window, after)}
    if exclude:
        params["AverageCountExcludePadding"] = True
    out.unit("Pooling", out.names[id(node.output)], out.source(node, node["x"]), params)


def _concat(out: Outgoing, node: Node) -> None:
    if arguments(node).flag("interleave"):
        raise refusal(node, "operands are joined one after the other", "interleave true", "interleave false")
    values = arguments(node).tensors("values")
    params = {"Dimension": out.axes()[arguments(node).axis("axis", out.rank)]}
    out.unit("Concat", out.names[id(node.output)], [out.source(node, value) for value in values], params,
             node.output.shape[1])


def _reshape(out: Outgoing, node: Node) -> None:
    params = out.extents("Reshaped", node.output.shape)
    out.unit("Reshape", out.names[id(node.output)], out.source(node, node["x"]), params)


def _view(out: Outgoing, bottom: str, name: str, kept: Sequence[range], extents: Sequence[int]) -> str:
    """InputView units in a row, one per axis that loses elements; the last is called `name`."""
    cut = [axis for axis, (part, extent) in enumerate(zip(kept, extents, strict=True)) if len(part) != extent] or [0]
    for axis in cut:
        params = {"Dimension": out.axes()[axis], "Offset": kept[axis].start, "Size": len(kept[axis])}
        bottom = out.unit("InputView", name if axis == cut[-1] else out.unique(f"{name}.{axis}"), bottom, params)
    return bottom


def _slice(out: Outgoing, node: Node) -> None:
    op: Op = get_op(node.op)
    x = node["x"]
    if node.op == "slice_by_index":
        kept, _ = ranges_by_index(op.name, op.parameters, node.operands)
    else:
        begin = arguments(node).integers("begin") or ()
        kept = tuple(range(start % extent, start % extent + size) for start, extent, size in
                     zip(begin, x.shape, node.output.shape, strict=True))
    if any(part.step != 1 and len(part) > 1 for part in kept):
        raise refusal(node, "every element between two kept ones is kept", "a stride other than 1", "stride 1")
    _view(out, out.source(node, x), out.names[id(node.output)], kept, x.shape)


def _split(out: Outgoing, node: Node) -> None:
    x, start = node["x"], 0
    axis = arguments(node).axis("axis", out.rank)
    for value in node.outputs:
        kept = [range(extent) for extent in x.shape]
        kept[axis] = range(start, start + value.shape[axis])
        start += value.shape[axis]
        _view(out, out.source(node, x), out.names[id(value)], kept, x.shape)


def _tile(out: Outgoing, node: Node) -> None:
    x = node["x"]
    info = []
    for axis, extent, size in zip(out.axes(), x.shape, node.output.shape, strict=True):
        if size != extent and extent != 1:
            raise refusal(node, "only extents of 1 are repeated", f"{extent} along {axis}", "concat for the rest")
        if size != extent:
            info.append({"Dimension": axis, "Size": size})
    out.unit("Broadcast", out.names[id(node.output)], out.source(node, x), {"BroadcastInfo": info})


def _softmax(out: Outgoing, node: Node) -> None:
    params = {"Dimension": out.axes()[arguments(node).axis("axis", out.rank)]}
    out.unit("Softmax", out.names[id(node.output)], out.source(node, node["x"]), params)


def _reduction(kind: str) -> Writer:
    def write(out: Outgoing, node: Node) -> None:
        axes = arguments(node).axes("axes", out.rank)
        named = [out.axes()[axis] for axis in (range(out.rank) if axes is None else axes)]
        params = {"Type": kind, "Dimension": named}
        out.unit("Reduction", out.names[id(node.output)], out.source(node, node["x"]), params)
    return write


def _permuted(out: Outgoing, bottom: str, name: str, perm: Sequence[int]) -> str:
    pairs = [{"TransposeDestinationDimension": out.axes()[axis], "TransposeSourceDimension": out.axes()[source]}
             for axis, source in enumerate(perm) if axis != source]
    return out.unit("Transpose", name, bottom, {"TransposeDimensions": pairs})


def _transpose(out: Outgoing, node: Node) -> None:
    perm = [axis % out.rank for axis in arguments(node).integers("perm") or ()]
    _permuted(out, out.source(node, node["x"]), out.names[id(node.output)], perm)


def _product(out: Outgoing, node: Node) -> None:
    """Matrices lie in height and width, the unit multiplies channels by width: both operands turn, and the result
    turns back."""
    if out.rank == 5 or node["x"].shape[:2] != node["y"].shape[:2]:
        raise refusal(node, "operands are [N, C, H, W] and share N and C", f"{node['x'].type}, {node['y'].type}",
                      "rank 4 and equal leading extents")
    name = out.names[id(node.output)]
    bottoms = []
    for side in "xy":
        perm = (0, 3, 1, 2) if arguments(node).flag(f"transpose_{side}") else (0, 2, 1, 3)
        bottoms.append(_permuted(out, out.source(node, node[side]), out.unique(f"{name}.{side}_rows"), perm))
    product = out.unit("MatrixMultiplication", out.unique(f"{name}.product"), bottoms)
    _permuted(out, product, name, (0, 2, 1, 3))


def _same(out: Outgoing, node: Node) -> None:
    """No unit: readers read x."""
    out.names[id(node.output)] = out.source(node, node["x"])


WRITERS: Mapping[str, Writer] = {
    "conv": _convolution, "max_pool": _pooling, "avg_pool": _pooling, "concat": _concat, "reshape": _reshape,
    "slice_by_index": _slice, "slice_by_size": _slice, "split": _split, "tile": _tile, "softmax": _softmax,
    "reduce_sum": _reduction("Sum"), "reduce_mean": _reduction("Avg"), "reduce_max": _reduction("Max"),
    "reduce_min": _reduction("Min"), "transpose": _transpose, "matmul": _product, "identity": _same,
}
