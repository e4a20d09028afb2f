"""Images resized, sampled and cut as ONNX nodes, and the choice among boxes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from openane.importers.onnx.writing.elements import Writer
from openane.importers.onnx.writing.outgoing import OutgoingNode
from openane.ops.crop_resize import are_constant, crops_of
from openane.ops.non_maximum_suppression import CLASSES
from openane.ops.resample import COORDINATES, PADDING, PLACES, stated_numbers
from openane.ops.resize import resizing, sampling_mode
from openane.ops.sampling import picks

LINEAR = {"DEFAULT": "asymmetric", "STRICT_ALIGN_CORNERS": "align_corners", "ALIGN_CORNERS": "align_corners",
          "UNALIGN_CORNERS": "half_pixel"}
"""Where ONNX's Resize takes its samples, by sampling mode, as long as there are two or more."""


def _resize(step: OutgoingNode) -> str:
    """By Resize where ONNX has the same samples; else elements are picked, or a matrix is applied, along each axis."""
    x, shape = step.node["x"].shape, step.node.output.shape
    step.take(sum(before * after for before, after in zip(x, shape, strict=True) if before != after))
    plan, picked = resizing(step.node.op, step.node.operands)
    settings = _repeats(step, plan) if picked else _interpolation(step, plan)
    if settings:
        return step.add("Resize", step.read(), "", "", step.integers(shape), **settings)
    tensor = step.read()
    for d, found in plan.items():
        tensor = _taken(step, tensor, d, found) if picked else _mapped(step, tensor, d, found)
    return tensor


def _repeats(step: OutgoingNode, plan: Mapping[int, np.ndarray]) -> dict[str, str]:
    """Settings of Resize for elements that are all repeated equally often; none for others."""
    for d, at in plan.items():
        times = len(at) // step.node["x"].shape[d]
        if not times or not np.array_equal(at, np.arange(len(at)) // times):
            return {}
    return {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}


def _interpolation(step: OutgoingNode, plan: Mapping[int, np.ndarray]) -> dict[str, str]:
    """Settings of Resize for an image whose height and width have two results or more where ONNX has its samples."""
    where = LINEAR.get(sampling_mode(step.arguments))
    image = step.node["x"].type.rank == 4 and len(plan) > 0 and min(plan) > 1
    if where is None or not image or any(len(matrix) < 2 for matrix in plan.values()):
        return {}
    return {"mode": "linear", "coordinate_transformation_mode": where}


def _taken(step: OutgoingNode, tensor: str, axis: int, at: np.ndarray) -> str:
    return step.add("Gather", tensor, step.model.constant(at.astype(np.int64)), axis=axis)


def _mapped(step: OutgoingNode, tensor: str, axis: int, matrix: np.ndarray) -> str:
    """A matrix [results, elements] applied along an axis, which is the last one while it is."""
    at, rank = picks(matrix), step.node["x"].type.rank
    if at is not None:
        return _taken(step, tensor, axis, at)
    order = [*(d for d in range(rank) if d != axis), axis]
    made = step.add("MatMul", step.transpose(tensor, order), step.array(matrix.T))
    return step.transpose(made, [order.index(d) for d in range(rank)])


PADDINGS = {"constant": "zeros", "border": "border", "reflection": "reflection", "symmetric": "reflection"}
Line = tuple[float, float]
"""Factor and term."""


def _line(extent: int, corners: bool, mode: str) -> Line:
    """What makes a number of an element of a coordinate of this mode."""
    if mode == COORDINATES[2]:
        return 1.0, 0.0
    if mode == COORDINATES[1]:
        return (extent - 1.0, 0.0) if corners else (float(extent), -0.5)
    return ((extent - 1) / 2, (extent - 1) / 2) if corners else (extent / 2, (extent - 1) / 2)


def _resample(step: OutgoingNode) -> str:
    """GridSample has coordinates from -1 to 1, and reflects at the outermost elements or at their edges by how it
    counts these."""
    padding, stated = step.arguments.text("padding_mode", PADDING), step.arguments.flag("align_corners")
    corners = padding == "reflection" or (stated and padding != "symmetric")
    return _sampled(step, _grid(step, stated, corners), corners, PADDINGS[padding])


def _grid(step: OutgoingNode, stated: bool, corners: bool) -> str:
    """The coordinates as GridSample has them: from a factor and a term for each of (x, y), computed now where they are
    constant."""
    x, at, mode = step.node["x"], step.node["coordinates"], step.arguments.text("coordinates_mode", COORDINATES)
    sizes = (x.shape[3], x.shape[2])
    same = (mode, stated) == (COORDINATES[0], corners)
    if corners and min(sizes) == 1 and not same:
        raise step.refuse("an image of one row or column has no distance between its elements", list(x.shape),
                          "padding_mode constant or border, and align_corners false")
    lines = [(_line(size, stated, mode), _line(size, corners, COORDINATES[0])) for size in sizes]
    factors = np.array([1.0 if same else found[0] / wanted[0] for found, wanted in lines])
    terms = np.array([0.0 if same else (found[1] - wanted[1]) / wanted[0] for found, wanted in lines])
    scale, offset = (stated_numbers(step.node.operands, name) for name in PLACES)
    if at.constant:
        places = at.array().astype(np.float64) * scale + offset
        return step.model.constant((places * factors + terms).astype(np.float32))
    grid = step.read("coordinates") if at.dtype == x.dtype else step.cast(step.read("coordinates"), x.dtype)
    factors, terms = scale * factors, offset * factors + terms
    return _line_of(step, grid, factors, terms)


def _line_of(step: OutgoingNode, x: str, factors: np.ndarray, terms: np.ndarray) -> str:
    """factors * x + terms, x itself where that is the same."""
    plain = (factors == 1).all() and not terms.any()
    return x if plain else step.add("Add", step.add("Mul", x, step.array(factors)), step.array(terms))


def _sampled(step: OutgoingNode, grid: str, corners: bool, padding: str) -> str:
    """GridSample pads with zeros: of another padding that is what is taken off before and put on behind."""
    sampling = step.arguments.text("sampling_mode", ("bilinear", "nearest"))
    around = step.arguments.number("padding_value") if padding == "zeros" else 0.0
    source = step.add("Sub", step.read(), step.number(around)) if around else step.read()
    made = step.add("GridSample", source, grid, align_corners=int(corners), padding_mode=padding,
                    mode="linear" if sampling == "bilinear" else "nearest")
    return step.add("Add", made, step.number(around)) if around else made


def _affine(step: OutgoingNode) -> str:
    """The matrix of each image, [2, 3], times where the results lie, from -1 to 1."""
    rows, columns = (step.arguments.integer(side, 1) for side in ("output_height", "output_width"))
    step.take(3 * rows * columns)
    across, down = (np.linspace(-1, 1, count) if count > 1 else np.zeros(1) for count in (columns, rows))
    plane = np.stack([*np.meshgrid(across, down), np.ones((rows, columns))], -1).reshape(1, -1, 3)
    images, count = step.node["x"].shape[0], step.node["transform_matrix"].shape[0]
    turned = step.transpose(step.reshape(step.read("transform_matrix"), (count, 2, 3)), (0, 2, 1))
    grid = step.reshape(step.add("MatMul", step.array(plane, "transform_matrix"), turned), (count, rows, columns, 2))
    if count != images:
        grid = step.add("Expand", grid, step.integers((images, rows, columns, 2)))
    return _sampled(step, grid, True, "zeros")


def _crop_resize(step: OutgoingNode) -> str:
    """For each box the image it is cut from, a matrix over its rows and one over its columns."""
    if not are_constant(step.node.operands):
        raise step.refuse("boxes are constants: no ONNX operator cuts and resizes in one", "computed boxes",
                          "constant boxes, or roi_align")
    x, made = step.node["x"].shape, step.node.output
    step.take(made.shape[0] * (x[2] * made.shape[-2] + x[3] * made.shape[-1]))
    found, _ = crops_of(step.node.operands)
    outside, parts = step.number(step.arguments.number("pad_value")), []
    for crop in found:
        image = step.slice(step.read(), crop.image, crop.image + 1, 0)
        part = step.add("MatMul", step.add("MatMul", step.array(crop.rows), image), step.array(crop.columns.T))
        parts.append(part if crop.inside.all() else step.add("Where", step.model.constant(crop.inside), part, outside))
    joined = parts[0] if len(parts) == 1 else step.add("Concat", *parts, axis=0)
    return step.reshape(joined, step.node.output.shape)


def _roi_align(step: OutgoingNode) -> str:
    places = "half_pixel" if step.arguments.flag("half_pixel") else "output_half_pixel"
    settings = {name: step.arguments.integer(name) for name in ("output_height", "output_width", "sampling_ratio")}
    return step.add("RoiAlign", step.read(), step.read("rois"), step.cast(step.read("batch_indices"), "int64"),
                    coordinate_transformation_mode=places, mode=step.arguments.text("mode", ("avg", "max")),
                    spatial_scale=step.arguments.number("spatial_scale"), **settings)


def _non_maximum_suppression(step: OutgoingNode) -> str:
    """ONNX gives a row for each box that is kept; rows behind those hold -1 here, where shapes are static."""
    if step.arguments.text("classes", CLASSES) != "each":
        raise step.refuse("ONNX keeps boxes of every class", step.arguments.text("classes", CLASSES), "classes=each")
    rows = step.node.output.shape[0]
    bounds = [step.integers([step.arguments.integer("most", 1)])]
    bounds += [step.model.constant(np.array([step.arguments.number(name)], np.float32))
               for name in ("overlap", "least_score")]
    kept = step.add("NonMaxSuppression", *(step.cast(step.read(name), "fp32") for name in ("boxes", "scores")),
                    *bounds, center_point_box=int(step.arguments.flag("centred")))
    missing = step.add("Sub", step.integers([rows, 3]), step.add("Shape", kept))
    pads = step.add("Concat", step.integers([0, 0]), missing, axis=0)
    filled = step.add("Pad", kept, pads, step.model.constant(np.array(-1, np.int64)))
    return step.cast(step.reshape(filled, (rows, 3)), "int32")


WRITERS: Mapping[str, Writer] = {
    "affine": _affine, "crop_resize": _crop_resize, "non_maximum_suppression": _non_maximum_suppression,
    "resample": _resample, "resize": _resize, "resize_bilinear": _resize, "resize_nearest_neighbor": _resize,
    "roi_align": _roi_align, "upsample_bilinear": _resize, "upsample_nearest_neighbor": _resize,
}
"""By the name of the operation."""
