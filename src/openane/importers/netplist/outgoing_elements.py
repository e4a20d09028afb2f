"""Nodes that work element by element as net.plist units: Neuron, ElementWise, GOC."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import log

import numpy as np

from openane.graph import Node, Value
from openane.importers.netplist.neurons import BINARY, COMPARISONS, GROUP, PLAIN_NEURONS
from openane.importers.netplist.outgoing import Outgoing, bits, refusal
from openane.ops import get_op
from openane.ops.batch_norm import constants as norm_constants
from openane.ops.operands import Arguments

Writer = Callable[[Outgoing, Node], None]

NEURONS = {op: kind for kind, op in reversed(PLAIN_NEURONS.items())}
ELEMENT_WISE = {op: kind for kind, op in (*BINARY.items(), *COMPARISONS.items())}


def arguments(node: Node) -> Arguments:
    """The node's operands, read by name with their defaults."""
    return Arguments(node.op, get_op(node.op).parameters, node.operands)


def _neuron(kind: str, **parameters: str) -> Writer:
    """A Neuron unit; `parameters` are the operands its fp16 keys are taken from."""
    def write(out: Outgoing, node: Node) -> None:
        params = {key: bits(arguments(node).number(operand), node, operand) for key, operand in parameters.items()}
        out.unit("Neuron", out.names[id(node.output)], out.source(node, node["x"]), {"Type": kind, **params})
    return write


def goc(out: Outgoing, name: str, bottom: str, kind: str, numbers: np.ndarray, node: Node) -> str:
    """A GOC unit with one number (rank 0) or one per channel as its Bias or Scale."""
    with np.errstate(over="ignore"):
        halves = numbers.astype(np.float16)
    if not np.isfinite(halves).all():
        raise refusal(node, "constants must be finite in fp16", float(np.abs(numbers).max()), "numbers up to 65504")
    if halves.ndim == 0:
        return out.unit("GOC", name, bottom, {f"{kind}Scalar": int(halves.view(np.uint16))})
    group = {f"{kind}Count": halves.size, f"{kind}Index": 0, f"{kind}Offset": out.store(halves),
             f"{kind}Type": "Float16"}
    return out.unit("GOC", name, bottom, {GROUP: group})


def _chain(out: Outgoing, node: Node, stages: Sequence[tuple[str, np.ndarray]], neuron: str = "", at: int = 0) -> None:
    """GOC units (kind, numbers) in a row with a Neuron of type `neuron` before stage `at`; the last unit takes the
    name of the result."""
    bottom, result = out.source(node, node["x"]), out.names[id(node.output)]
    steps: list[tuple[str, np.ndarray | None]] = list(stages)
    if neuron:
        steps.insert(at, (neuron, None))
    for index, (kind, numbers) in enumerate(steps):
        name = result if index == len(steps) - 1 else out.unique(f"{result}.{index}")
        bottom = out.unit("Neuron", name, bottom, {"Type": kind}) if numbers is None else \
            goc(out, name, bottom, kind, numbers, node)


def _exponential(out: Outgoing, node: Node) -> None:
    _chain(out, node, [("Scale", np.array(1 / log(2)))], "Exp2", 1)


def _epsilon(kind: str) -> Writer:
    """A Neuron of x + epsilon."""
    def write(out: Outgoing, node: Node) -> None:
        epsilon = np.float16(arguments(node).number("epsilon"))
        _chain(out, node, [("Bias", np.array(epsilon))] if epsilon else [], kind, 1 if epsilon else 0)
    return write


def _logarithm(out: Outgoing, node: Node) -> None:
    epsilon = np.float16(arguments(node).number("epsilon"))
    bias = [("Bias", np.array(epsilon))] if epsilon else []
    _chain(out, node, [*bias, ("Scale", np.array(log(2)))], "Log2", len(bias))


def _linear(out: Outgoing, node: Node) -> None:
    scale, bias = (np.array(arguments(node).number(name)) for name in ("alpha", "beta"))
    _chain(out, node, [("Scale", scale), *([("Bias", bias)] if bias else [])])


def _batch_norm(out: Outgoing, node: Node) -> None:
    gain, offset = norm_constants(node)
    _chain(out, node, [("Scale", gain), ("Bias", offset)])


def _gelu(out: Outgoing, node: Node) -> None:
    mode = arguments(node).text("mode", ("EXACT", "TANH_APPROXIMATION", "SIGMOID_APPROXIMATION"))
    if mode != "EXACT":
        raise refusal(node, "GELU has one form", mode, 'mode "EXACT"')
    _neuron("GELU")(out, node)


def _relu6(out: Outgoing, node: Node) -> None:
    params = {"Type": "ClampedReLU", "ReluMin": 0, "ReluMax": bits(6.0, node, "x")}
    out.unit("Neuron", out.names[id(node.output)], out.source(node, node["x"]), params)


def per_channel(array: np.ndarray, shape: Sequence[int]) -> np.ndarray | None:
    """`array` as one number (rank 0) or one per channel of a tensor of `shape`; None when it is neither."""
    extents = (1,) * (len(shape) - array.ndim) + array.shape
    if array.size == 1 and len(extents) == len(shape):
        return array.reshape(())
    fits = len(extents) == len(shape) and extents[1] == shape[1] and array.size == shape[1]
    return array.reshape(-1) if fits else None


def _binary(out: Outgoing, node: Node) -> None:
    x, y = node["x"], node["y"]
    constant, other = (x, y) if x.constant else (y, x)
    numbers = per_channel(constant.array(), other.shape) if constant.constant and not other.constant else None
    if numbers is not None and node.op in ("add", "mul", "sub"):
        _with_constant(out, node, other, constant is x, numbers.astype(np.float32))
        return
    name = out.names[id(node.output)]
    bottoms = [spread(out, node, node[side], f"{name}.{side}", node.output.shape) for side in "xy"]
    out.unit("ElementWise", name, bottoms, {"Type": ELEMENT_WISE[node.op]})


def _with_constant(out: Outgoing, node: Node, x: Value, reversed_: bool, numbers: np.ndarray) -> None:
    """x + c, x * c, x - c and c - x as GOC units."""
    name, bottom = out.names[id(node.output)], out.source(node, x)
    if node.op == "sub" and reversed_:
        bottom = goc(out, out.unique(f"{name}.0"), bottom, "Scale", np.array(-1.0), node)
    negative = node.op == "sub" and not reversed_
    goc(out, name, bottom, "Scale" if node.op == "mul" else "Bias", -numbers if negative else numbers, node)


def _quotient(out: Outgoing, node: Node) -> None:
    """x / y as x times the reciprocal of y."""
    x, y, name = node["x"], node["y"], out.names[id(node.output)]
    if y.constant:
        with np.errstate(divide="ignore"):
            reciprocal = (1 / y.array().astype(np.float64)).astype(np.float16)
        numbers = per_channel(reciprocal, x.shape)
        if numbers is not None and not x.constant:
            goc(out, name, out.source(node, x), "Scale", numbers.astype(np.float32), node)
            return
    inverse = out.unit("Neuron", out.unique(f"{name}.inverse"), out.source(node, y), {"Type": "Inv"})
    right = stretch(out, inverse, y.shape, out.unique(f"{name}.y"), node.output.shape)
    out.unit("ElementWise", name, [spread(out, node, x, f"{name}.x", node.output.shape), right], {"Type": "Mult"})


def spread(out: Outgoing, node: Node, value: Value, name: str, shape: Sequence[int]) -> str:
    """Where `value` is read from, in a Broadcast unit to `shape` when it has other extents."""
    bottom = out.source(node, value)
    return stretch(out, bottom, value.shape, name, shape)


def stretch(out: Outgoing, bottom: str, extents: Sequence[int], name: str, shape: Sequence[int]) -> str:
    """`bottom`, or a Broadcast unit of it where its extents (leading ones of 1 left out) differ from `shape`."""
    extents = (1,) * (out.rank - len(extents)) + tuple(extents)
    info = [{"Dimension": axis, "Size": size} for axis, extent, size in zip(out.axes(), extents, shape, strict=True)
            if extent != size]
    return out.unit("Broadcast", out.unique(name), bottom, {"BroadcastInfo": info}) if info else bottom


def _absolute(out: Outgoing, node: Node) -> None:
    out.unit("ElementWise", out.names[id(node.output)], out.source(node, node["x"]), {"Type": "Abs"})


def _cast(out: Outgoing, node: Node) -> None:
    """The type the unit of x writes, or that of an input: net.plist casts nowhere else."""
    x, target = node["x"], {"fp16": "Float16", "uint8": "UInt8", "int8": "Int8"}.get(node.output.dtype)
    source = out.source(node, x)
    if target is None:
        raise refusal(node, "tensors are Float16, UInt8 or Int8", node.output.dtype, "fp16, uint8 or int8")
    alone = list(out.names.values()).count(source) == 1 and out.uses[id(x)] == 1
    if target == "Float16" and (source not in out.units or (x.dtype == "bool" and not alone)):
        out.names[id(node.output)] = source  # units read inputs as fp16 themselves, and write comparisons as fp16
        return
    name = out.names[id(node.output)]
    if source in out.units and x.dtype in ("fp16", "bool") and alone:
        out.rename(source, name)["OutputType"] = target
    else:
        out.unit("GOC", name, source, {"ScaleScalar": bits(1.0, node, "x")})
        out.units[name]["OutputType"] = target


WRITERS: Mapping[str, Writer] = {
    **{op: _neuron(kind) for op, kind in NEURONS.items()}, **dict.fromkeys(ELEMENT_WISE, _binary),
    "leaky_relu": _neuron("LeakyReLU", ReluSlope="alpha"), "elu": _neuron("ELU", EluAlpha="alpha"),
    "clip": _neuron("ClampedReLU", ReluMin="alpha", ReluMax="beta"), "relu6": _relu6, "gelu": _gelu, "abs": _absolute,
    "rsqrt": _epsilon("Rsqrt"), "inverse": _epsilon("Inv"), "exp": _exponential, "log": _logarithm,
    "linear_activation": _linear, "batch_norm": _batch_norm, "real_div": _quotient, "cast": _cast,
}
