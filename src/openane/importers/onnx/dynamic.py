"""Quantised numbers that need not be whole: those of a scale measured while the model runs, and those of 16 bits.

`DynamicQuantizeLinear` rounds x to whole numbers of a scale it takes from x, MatMulInteger or ConvInteger multiplies
those, and the scale is multiplied back behind. The rounding serves integer hardware; the engine multiplies fp16, so it
takes x as it is: the product is that of the model before it was quantised. This file finds where a graph uses the scale
for nothing else.

Steps of 16 bits are finer than those of fp16: numbers that are quantised to 16 bits and dequantised again are only kept
within the range.
"""

from __future__ import annotations

from collections.abc import Iterable

from openane.importers.onnx.nodes import Proto
from openane.record_classes import dataclass

PRODUCTS = frozenset(["MatMulInteger", "ConvInteger"])
_CARRIED = frozenset(["Cast", "Expand", "Flatten", "Identity", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze"])
_ROUNDED = frozenset(["Ceil", "Floor", "Round"])
_MOVED = _CARRIED - {"Cast"}
FINE = frozenset([4, 5])
"""Codes of uint16 and int16 among ONNX's element types."""
_SCALING = _CARRIED | _ROUNDED | {"Div", "Mul", "Neg"}

_QUANTISING = frozenset(["DynamicQuantizeLinear", "QuantizeLinear"])


@dataclass(frozen=True, slots=True)
class RelativeNumbers:
    """Tensors (by name) of a graph that stand for whole numbers of a measured scale and need not be whole: what
    DynamicQuantizeLinear nodes make, and constants rounded to the same scale; and `fine` ones of 16 bits."""

    quantised: frozenset[str]
    rounded: frozenset[str]
    fine: frozenset[str] = frozenset()


def relative_numbers(graph: Proto) -> RelativeNumbers:
    """What may stay unrounded in a graph: nothing, where one scale is used in another way."""
    quantises = any(node.op_type in _QUANTISING for node in graph.node)
    return _relative(graph) if quantises else RelativeNumbers(frozenset(), frozenset())


def _relative(graph: Proto) -> RelativeNumbers:
    nodes = [node for node in graph.node if node.op_type == "DynamicQuantizeLinear"]
    uses = _uses(graph.node)
    outputs = {port.name for port in graph.output}
    scales = _scales(graph, {name for node in nodes for name in node.output[1:2]})
    fine = _fine(graph, uses, outputs)
    if not all(_products_alone(node, uses, outputs, scales) for node in nodes):
        return RelativeNumbers(frozenset(), frozenset(), fine)
    rounded = (node for node in graph.node if node.op_type in _ROUNDED | {"Cast"})
    return RelativeNumbers(frozenset(node.output[0] for node in nodes),
                           frozenset(scales.intersection(name for node in rounded for name in node.output)), fine)


def _fine(graph: Proto, uses: dict[str, list[Proto]], outputs: set[str]) -> frozenset[str]:
    """Numbers quantised to 16 bits that are only dequantised again, as they are made and laid out anew."""
    return frozenset[str]().union(*(_dequantised_alone(node.output[0], uses, outputs) for node in graph.node
                                    if node.output and _is_fine(node, graph)))


def _is_fine(node: Proto, graph: Proto) -> bool:
    """Whether a node quantises to 16 bits, as its zero point or its attribute says."""
    if node.op_type != "QuantizeLinear":
        return False
    zero = node.input[2] if len(node.input) > 2 else ""
    types = {tensor.data_type for tensor in graph.initializer if zero and tensor.name == zero}
    stated = {attribute.i for attribute in node.attribute if attribute.name == "output_dtype"}
    return not FINE.isdisjoint(types or stated)


def _dequantised_alone(name: str, uses: dict[str, list[Proto]], outputs: set[str]) -> set[str]:
    """What integers are laid out as, where they go nowhere but where they are dequantised; nothing elsewhere."""
    waiting, seen = [name], {name}
    while waiting:
        name = waiting.pop()
        users = uses.get(name, ())
        moved = {result for user in users if user.op_type in _MOVED and user.input[0] == name for result in user.output}
        if name in outputs or any(user.op_type not in _MOVED | {"DequantizeLinear"} or user.input[0] != name
                                  for user in users):
            return set()
        waiting += sorted(moved - seen)
        seen |= moved
    return seen


def _uses(nodes: Iterable[Proto]) -> dict[str, list[Proto]]:
    table: dict[str, list[Proto]] = {}
    for node in nodes:
        for name in node.input:
            table.setdefault(name, []).append(node)
    return table


def _scales(graph: Proto, measured: set[str]) -> set[str]:
    """Names of the measured scales and of what is computed from them and constants alone."""
    constants = {tensor.name for tensor in graph.initializer} | {""}
    found = set(measured)
    for node in graph.node:
        if node.op_type == "Constant" or (node.input and constants.issuperset(node.input)):
            constants.update(node.output)
        elif node.op_type in _SCALING and (constants | found).issuperset(node.input):
            found.update(node.output)
    return found


def _products_alone(node: Proto, uses: dict[str, list[Proto]], outputs: set[str], scales: set[str]) -> bool:
    """Whether what a node quantises is a factor of products alone, each multiplied by a scale behind."""
    if len(node.output) != 3:
        return False
    whole, _, zero = node.output
    products = [user for name in (whole, zero) for user in uses.get(name, ())]
    if outputs.intersection(node.output) or not all(
            user.op_type in PRODUCTS and user.input[0] == whole and len(user.input) > 2 and user.input[2] == zero
            for user in products):
        return False
    return all(_scaled_back(name, uses, outputs, scales) for user in products for name in user.output)


def _scaled_back(name: str, uses: dict[str, list[Proto]], outputs: set[str], scales: set[str]) -> bool:
    """Whether a product, with what is added in its own scale, only goes where a scale multiplies it."""
    waiting, seen = [name], {name}
    while waiting:
        name = waiting.pop()
        carried = _carried(name, uses.get(name, ()), scales)
        if name in outputs or name not in uses or carried is None:
            return False
        waiting += sorted(carried - seen)
        seen |= carried
    return True


def _carried(name: str, users: Iterable[Proto], scales: set[str]) -> set[str] | None:
    """What a product becomes before a scale multiplies it; None where it is used otherwise."""
    found: set[str] = set()
    for user in users:
        others = set(user.input) - {name, ""}
        if user.op_type == "Mul" and others and others <= scales:
            continue
        if not ((user.op_type in _CARRIED and user.input[0] == name) or (user.op_type == "Add" and others <= scales)):
            return None
        found.update(user.output)
    return found
