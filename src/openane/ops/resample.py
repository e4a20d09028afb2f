"""resample and affine: images [B, C, H, W] sampled at constant coordinates, or at coordinates a constant matrix gives.

Every sample is a sum of up to four elements of its image, so the operation is a product with a constant matrix
[elements of an image, samples].
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from math import prod
from typing import Any

import numpy as np

from openane.chips import Limits
from openane.graph import Node, Operand, TensorType, Value, numpy_type
from openane.ops.gradients import Backward, only, reshaped
from openane.ops.lowering import Lowering
from openane.ops.operands import Arguments, refusal
from openane.ops.rules import ENGINE
from openane.ops.sampled import sampled
from openane.ops.sampling_places import relative_places
from openane.ops.shaped import read_as, written_as
from openane.ops.slice import as_operands
from openane.ops.spec import Op, Parameter, Upstream

LARGEST = 1 << 22
"""Elements of the matrix: 8 MiB of coefficients."""
COORDINATES = ("normalized_minus_one_to_one", "normalized_zero_to_one", "unnormalized")
PADDING = ("constant", "border", "reflection", "symmetric")
SETTINGS = (
    Parameter("sampling_mode", const=True, kind="string"),
    Parameter("padding_mode", const=True, kind="string"),
    Parameter("padding_value", const=True),
    Parameter("coordinates_mode", const=True, kind="string"),
    Parameter("align_corners", const=True, kind="bool"),
)
PARAMETERS = {
    "resample": (Parameter("x"), Parameter("coordinates", kind="number"), *SETTINGS,
                 Parameter("scale", const=True, default=None, kind="number"),
                 Parameter("offset", const=True, default=None, kind="number")),
    "affine": (Parameter("x"), Parameter("transform_matrix"), Parameter("output_height", const=True, kind="int32"),
               Parameter("output_width", const=True, kind="int32"), *SETTINGS),
}
PLACES = ("scale", "offset")
"""What coordinates are multiplied by and what is added to them, in fp32, before they say anything."""
WHERE = {"resample": "coordinates", "affine": "transform_matrix"}


def _infer(operands: Mapping[str, Operand], *, name: str) -> tuple[TensorType, ...]:
    arguments = Arguments(name, PARAMETERS[name], operands)
    x = arguments.tensor("x", ranks=(4, 4))
    arguments.text("sampling_mode", ("bilinear",) if name == "affine" else ("bilinear", "nearest"))
    arguments.text("padding_mode", ("constant",) if name == "affine" else PADDING)
    arguments.text("coordinates_mode", COORDINATES[:1] if name == "affine" else COORDINATES)
    if not arguments.flag("align_corners") and name == "affine":
        raise refusal(name, "align_corners", "must be true")
    if arguments.number("padding_value") and name == "affine":
        raise refusal(name, "padding_value", "must be 0")
    if name == "affine":
        matrix = arguments.tensor("transform_matrix", ranks=(2, 2))
        if matrix.shape not in ((1, 6), (x.shape[0], 6)):
            raise refusal(name, "transform_matrix", f"must have shape [1, 6] or [{x.shape[0]}, 6]", list(matrix.shape))
        size = tuple(arguments.integer(side, 1, 1 << 15) for side in ("output_height", "output_width"))
    else:
        size = _size(arguments, x)
    return (TensorType(x.dtype, (*x.shape[:2], *size)),)


def _size(arguments: Arguments, x: Value) -> tuple[int, ...]:
    """How many samples there are, in rows and columns, as coordinates say that fit x."""
    at = arguments.tensor("coordinates", _ANY, (4, 4))
    if at.shape[0] != x.shape[0] or at.shape[3] != 2:
        raise refusal(arguments.op, "coordinates", f"must have shape [{x.shape[0]}, height, width, 2]", list(at.shape))
    for place in filter(arguments.given, PLACES):
        stated = arguments.tensor(place, ("fp32",), (4, 4))
        if stated.shape != at.shape:
            raise refusal(arguments.op, place, f"must have the shape of the coordinates, {list(at.shape)}",
                          list(stated.shape))
    return at.shape[1:3]


def stated_numbers(operands: Mapping[str, Operand], name: str) -> np.ndarray:
    """The scale or the offset of coordinates, 1 or 0 where it is left out, in fp64."""
    stated = operands.get(name)
    if isinstance(stated, Value):
        return np.asarray(stated.array(), np.float64)
    return np.array(1.0 if name == PLACES[0] else 0.0)


def _positions(arguments: Arguments, x: Value) -> np.ndarray:
    """[B, H2, W2, 2] of (x, y) in elements of the image."""
    height, width = x.shape[2:]
    if arguments.op == "affine":
        rows, columns = (arguments.integer(side) for side in ("output_height", "output_width"))
        across, down = (np.linspace(-1, 1, count) if count > 1 else np.zeros(1) for count in (columns, rows))
        ones = np.ones((rows, columns))
        plane = np.stack([ones * across, ones * down[:, None], ones], -1)
        matrix = arguments.tensor("transform_matrix").array().astype(np.float64).reshape(-1, 1, 1, 2, 3)
        at = (matrix * plane[None, :, :, None]).sum(-1)
        at = np.broadcast_to(at, (x.shape[0], *at.shape[1:]))
    else:
        at = arguments.tensor("coordinates", _ANY).array().astype(np.float64)
        scale, offset = (stated_numbers(arguments.operands, name) for name in PLACES)
        at = np.asarray(at * scale + offset)
    mode = arguments.text("coordinates_mode", COORDINATES)
    if mode == "unnormalized":
        return at
    share = (at + 1) / 2 if mode == COORDINATES[0] else at
    extents = np.array([width, height])
    return np.asarray(share * (extents - 1) if arguments.flag("align_corners") else share * extents - 0.5)


_ANY = ("fp16", "fp32", "int32", "int16", "uint16", "int8", "uint8")


def _folded(at: np.ndarray, extent: int, mode: str) -> np.ndarray:
    """Element numbers, int64, brought into the image by the padding mode (constant: left as they are)."""
    if mode == "border" or (mode == "reflection" and extent == 1):
        return at.clip(0, extent - 1)
    if mode == "reflection":
        back = np.abs(at) % (2 * extent - 2)
        return np.asarray(np.minimum(back, 2 * extent - 2 - back))
    if mode == "symmetric":
        back = at % (2 * extent)
        return np.asarray(np.minimum(back, 2 * extent - 1 - back))
    return at


def _matrices(arguments: Arguments, x: Value) -> tuple[np.ndarray, np.ndarray]:
    """For each image [elements, samples] weights, and what padding adds to each sample."""
    height, width = x.shape[2:]
    at = _positions(arguments, x).reshape(x.shape[0], -1, 2)
    mode = arguments.text("padding_mode", PADDING)
    if arguments.text("sampling_mode", ("bilinear", "nearest")) == "nearest":
        at = np.rint(at)
    low = np.floor(at).astype(np.int64)
    share = at - low
    images, samples = at.shape[:2]
    weights = np.zeros((images, height * width, samples))
    lost = np.zeros((images, samples))
    batch, sample = np.meshgrid(np.arange(images), np.arange(samples), indexing="ij")
    for right in (0, 1):
        for below in (0, 1):
            part = np.where(right, share[..., 0], 1 - share[..., 0]) * np.where(below, share[..., 1], 1 - share[..., 1])
            column, row = _folded(low[..., 0] + right, width, mode), _folded(low[..., 1] + below, height, mode)
            valid = (column >= 0) & (column < width) & (row >= 0) & (row < height)
            lost += np.where(valid, 0, part)
            where = (batch[valid], (row * width + column)[valid], sample[valid])
            np.add.at(weights, where, part[valid])
    return weights, lost * arguments.number("padding_value")


def _reference(*, name: str, x: np.ndarray, **settings: Any) -> tuple[np.ndarray, ...]:
    operands = as_operands(x, settings)
    arguments = Arguments(name, PARAMETERS[name], operands)
    at = _positions(arguments, operands["x"])  # type: ignore[arg-type]
    if arguments.text("sampling_mode", ("bilinear", "nearest")) == "nearest":
        at = np.rint(at)
    inside = partial(_folded, mode=arguments.text("padding_mode", PADDING))
    return (sampled(x.astype(np.float64), at, inside, arguments.number("padding_value")).astype(x.dtype),)


def constant_places(node: Node, limits: Limits) -> bool:
    """Coordinates and transforms must be constants: where the engine reads cannot depend on data."""
    return node[WHERE[node.op]].constant


def small_enough(node: Node, limits: Limits) -> bool:
    """Elements of an image times samples of it may be at most 4194304: the size of the matrix that maps them."""
    return prod(node["x"].shape[2:]) * prod(node.output.shape[2:]) <= LARGEST


def _lower(node: Node, lowering: Lowering) -> None:
    """One matrix product for each image, or for all when they share their matrix."""
    x = node["x"]
    weights, lost = _matrices(Arguments(node.op, PARAMETERS[node.op], node.operands), x)
    images, channels = x.shape[:2]
    source = read_as(lowering, lowering.read(x), (images, channels, prod(x.shape[2:])))
    with written_as(lowering, lowering.result(node.output), (images, channels, weights.shape[2])) as whole:
        for image in range(images):
            lowering.product(whole.at(0, image), source.at(0, image), weights[image],
                             lost[image] if lost[image].any() else None)


def _gradient(node: Node, upstream: Upstream, backward: Backward) -> Mapping[str, Operand]:
    """The product with the transposed matrix of each image. Where samples lie has to be constant."""
    x, given, where = node["x"], only(upstream), WHERE[node.op]
    if not node[where].constant:
        raise backward.refuse(f"the gradient is known by x, for constant {where}: where the engine reads cannot depend "
                              "on data", f"leave {where} constant")
    weights, _ = _matrices(Arguments(node.op, PARAMETERS[node.op], node.operands), x)
    if (weights == weights[0]).all():
        weights = weights[0]
    samples = reshaped(backward, given, (*x.shape[:2], prod(given.shape[2:])))
    made = backward.single("matmul", x=samples, y=weights.astype(numpy_type(x.dtype)), transpose_y=True)
    return {"x": reshaped(backward, made, x.shape)}


OPS = tuple(Op(name, parameters, partial(_infer, name=name), partial(_reference, name=name),
               rules=(*ENGINE, constant_places, small_enough), lower=_lower, gradient=_gradient,
               positions=WHERE[name], recognise={name: relative_places} if name == "resample" else {})
            for name, parameters in PARAMETERS.items())
