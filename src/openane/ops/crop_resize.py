"""crop_resize: boxes of images, in constant places, resized by linear interpolation.

Two forms: `roi` [N, 1, 4 or 5, 1, 1] (results [N, B or 1, C, height, width]; the fifth number, first, is the image) and
`boxes` [N, 4] with `box_indices` [N] (results [N, C, height, width]). Samples outside the image are `pad_value`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from openane.chips import Limits
from openane.engine import Binary
from openane.graph import Node, Operand, TensorType, Value, numpy_type
from openane.ops.gradients import Backward, mapped_back, only, reshaped, total
from openane.ops.lowering import Lowering
from openane.ops.operands import Arguments, refusal
from openane.ops.rules import ENGINE
from openane.ops.sampling import MODES, NEIGHBOURS, grid, linear, lower_maps, mapped
from openane.ops.shaped import written_as
from openane.ops.slice import as_operands
from openane.ops.spec import Op, Parameter, Upstream
from openane.record_classes import dataclass

LARGEST = 1 << 15
ORDERS = {  # where a box holds: height start or centre, width, height end or size, width
    "CORNERS_HEIGHT_FIRST": (0, 1, 2, 3), "CORNERS_WIDTH_FIRST": (1, 0, 3, 2),
    "CENTER_SIZE_HEIGHT_FIRST": (0, 1, 2, 3), "CENTER_SIZE_WIDTH_FIRST": (1, 0, 3, 2)}
PARAMETERS = (
    Parameter("x"),
    Parameter("roi", default=None, kind="number"),
    Parameter("boxes", default=None, kind="number"),
    Parameter("box_indices", default=None, kind="index"),
    Parameter("target_height", const=True, default=1, kind="int32"),
    Parameter("target_width", const=True, default=1, kind="int32"),
    Parameter("normalized_coordinates", const=True, default=False, kind="bool"),
    Parameter("spatial_scale", const=True, default=1.0, kind="number"),
    Parameter("box_coordinate_mode", const=True, default="CORNERS_HEIGHT_FIRST", kind="string"),
    Parameter("sampling_mode", const=True, default="DEFAULT", kind="string"),
    Parameter("pad_value", const=True, default=0.0),
)


@dataclass(frozen=True, slots=True)
class Crop:
    """One box: the image it is cut from, the matrices of its rows and columns, and which samples lie in the image."""

    image: int
    rows: np.ndarray
    columns: np.ndarray
    inside: np.ndarray


def _sizes(arguments: Arguments) -> tuple[int, int]:
    height, width = (arguments.integer(name, 1, LARGEST) for name in ("target_height", "target_width"))
    return height, width


def _boxes(arguments: Arguments, x: Value) -> tuple[Value, bool]:
    """The operand that holds boxes, and whether it is `roi`. GraphError when there is not exactly one."""
    if arguments.given("roi") == arguments.given("boxes"):
        raise refusal("crop_resize", "roi", "or boxes must be given, and not both")
    if arguments.given("roi"):
        roi = arguments.tensor("roi", ranks=(5, 5))
        if roi.shape[1:] not in ((1, 4, 1, 1), (1, 5, 1, 1)):
            raise refusal("crop_resize", "roi", "must have shape [N, 1, 4, 1, 1] or [N, 1, 5, 1, 1]", list(roi.shape))
        return roi, True
    boxes = arguments.tensor("boxes", ("fp16", "fp32", "uint16"), (2, 2))
    if boxes.shape[1] != 4 or (not arguments.given("box_indices") and boxes.shape[0] > x.shape[0]):
        raise refusal("crop_resize", "boxes", "must have shape [N, 4], with box_indices where N exceeds the images",
                      list(boxes.shape))
    return boxes, False


def _infer(operands: Mapping[str, Operand]) -> tuple[TensorType, ...]:
    arguments = Arguments("crop_resize", PARAMETERS, operands)
    x = arguments.tensor("x", ranks=(4, 4))
    boxes, roi = _boxes(arguments, x)
    arguments.text("box_coordinate_mode", tuple(ORDERS))
    arguments.text("sampling_mode", MODES)
    arguments.flag("normalized_coordinates")
    arguments.number("spatial_scale")
    arguments.number("pad_value")
    if are_constant(operands):
        crops_of(operands)
    count, channels, size = boxes.shape[0], x.shape[1], _sizes(arguments)
    images = (x.shape[0] if boxes.shape[2] == 4 else 1,) if roi else ()
    return (TensorType(x.dtype, (count, *images, channels, *size)),)


def crops_of(operands: Mapping[str, Operand]) -> tuple[list[Crop], int]:
    """Every crop of a node with these operands in the order of the results, and how many results a box has. GraphError
    where boxes do not fit."""
    arguments = Arguments("crop_resize", PARAMETERS, operands)
    x = arguments.tensor("x", ranks=(4, 4))
    boxes, roi = _boxes(arguments, x)
    numbers = boxes.array().astype(np.float64).reshape(boxes.shape[0], -1)
    images = np.arange(len(numbers))
    every = roi and numbers.shape[1] == 4
    if roi and not every:
        images, numbers = numbers[:, 0].astype(np.int64), numbers[:, 1:]
    elif arguments.given("box_indices"):
        images = arguments.tensor("box_indices", tuple(_INDICES), (1, 1)).array().astype(np.int64)
    if len(images) != len(numbers) or (not every and not ((images >= 0) & (images < x.shape[0])).all()):
        raise refusal("crop_resize", "box_indices", f"must name one of {x.shape[0]} images for each box",
                      images.tolist()[:16])
    found = []
    for image, box in zip(images, numbers, strict=True):
        plan = _plan(arguments, x, box)
        found += [Crop(i, *plan) for i in (range(x.shape[0]) if every else (int(image),))]
    return found, x.shape[0] if every else 1


_INDICES = ("int32", "uint16", "int16", "uint8", "int8")


def _plan(arguments: Arguments, x: Value, box: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    order = arguments.text("box_coordinate_mode", tuple(ORDERS))
    mode = arguments.text("sampling_mode", MODES)
    scale = arguments.number("spatial_scale")
    matrices, inside = [], []
    for axis, results in enumerate(_sizes(arguments)):
        extent = x.shape[2 + axis]
        unit = (extent - 1 if arguments.flag("normalized_coordinates") else 1) * scale
        low, high = (box[ORDERS[order][axis + side]] * unit for side in (0, 2))
        if order.startswith("CENTER"):
            low, high = low - high / 2, low + high / 2
        positions = _within_box(mode, low, high, results)
        valid = (positions >= 0) & (positions <= extent - 1)
        matrices.append(linear(positions, extent) * valid[:, None])
        inside.append(valid)
    return matrices[0], matrices[1], inside[0][:, None] & inside[1]


def _within_box(mode: str, low: float, high: float, results: int) -> np.ndarray:
    """Sample positions of a box from `low` to `high`, backwards when it ends before it starts."""
    span = abs(high - low)
    steps = grid(mode, span + 1, results).clip(0, span)
    return low + steps if high >= low else low - steps


def _reference(*, x: np.ndarray, roi: np.ndarray | None, boxes: np.ndarray | None, box_indices: np.ndarray | None,
               pad_value: np.ndarray, **settings: Any) -> tuple[np.ndarray, ...]:
    stated = {"roi": roi, "boxes": boxes, "box_indices": box_indices, "pad_value": pad_value, **settings}
    crops, each = crops_of(as_operands(x, stated))
    parts = [np.where(crop.inside, mapped(x[crop.image], {1: crop.rows, 2: crop.columns}), np.float32(pad_value))
             for crop in crops]
    result = np.stack(parts).astype(x.dtype)
    return (result.reshape(-1, each, *result.shape[1:]) if roi is not None else result,)


def constant_boxes(node: Node, limits: Limits) -> bool:
    """Boxes must be constants: where the engine reads cannot depend on data."""
    return are_constant(node.operands)


def are_constant(operands: Mapping[str, Operand]) -> bool:
    """Whether it is known now where the boxes of a node with these operands lie."""
    found = (operands.get(name) for name in ("roi", "boxes", "box_indices"))
    return all(value.constant for value in found if isinstance(value, Value))


def _lower(node: Node, lowering: Lowering) -> None:
    """For each box a matrix over rows and one over columns; what lies outside is added where it is not 0."""
    source = lowering.read(node["x"])
    value = Arguments("crop_resize", PARAMETERS, node.operands).number("pad_value")
    crops, _ = crops_of(node.operands)
    target = lowering.result(node.output)
    with written_as(lowering, target, (len(crops), *target.shape[-3:])) as whole:
        for number, crop in enumerate(crops):
            place = whole.part(0, number, 1)
            padded = value != 0 and not crop.inside.all()
            made = lowering.scratch(place.shape) if padded else place
            part = source.part(0, crop.image, 1)
            lower_maps(lowering, part, {2: crop.rows, 3: crop.columns}, lambda made=made: made)  # type: ignore[misc]
            if padded:
                lowering.elementwise(place, made, lowering.constant(np.where(crop.inside, 0, value)), Binary.ADD)


def _gradient(node: Node, upstream: Upstream, backward: Backward) -> Mapping[str, Operand]:
    """For each box the transposes of its two matrices, summed over the boxes of an image. Boxes have to be constant."""
    if not are_constant(node.operands):
        raise backward.refuse("the gradient is known by x, for constant boxes: where the engine reads cannot depend on "
                              "data", "leave roi and boxes constant")
    x, crops = node["x"], crops_of(node.operands)[0]
    given = reshaped(backward, only(upstream), (len(crops), *node.output.shape[-3:]))
    parts: list[list[Value]] = [[] for _ in range(x.shape[0])]
    for number, crop in enumerate(crops):
        part = backward.single("slice_by_size", x=given, begin=[number, 0, 0, 0], size=[1, -1, -1, -1])
        wide = mapped_back(backward, part, 3, crop.columns)
        parts[crop.image].append(mapped_back(backward, wide, 2, crop.rows))
    none = np.zeros((1, *x.shape[1:]), numpy_type(x.dtype))
    images = tuple(total(backward, found) if found else none for found in parts)
    return {"x": backward.single("concat", values=images, axis=0)}


OPS = (Op("crop_resize", PARAMETERS, _infer, _reference, rules=(*ENGINE, constant_boxes), lower=_lower,
          gradient=_gradient, homogeneous=lambda node: ("x",), averages=lambda node: NEIGHBOURS),)
