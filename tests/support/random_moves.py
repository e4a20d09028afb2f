"""Random operands for operations that move, select and resample elements."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from support.random_graphs import Maker, Operands


def _divisors(number: int) -> list[int]:
    return [part for part in range(1, number + 1) if number % part == 0]


def _reshape(m: Maker) -> dict[str, Any]:
    x, shape = m.real(), []
    left = x.type.elements
    for _ in range(m.draw.randint(0, 4)):
        shape.append(m.draw.choice(_divisors(left)))
        left //= shape[-1]
    return {"x": x, "shape": [*shape, left]}


def _concat(m: Maker) -> dict[str, Any]:
    x = m.real()
    axis = m.axis(x)
    shape = list(x.shape)
    shape[axis] = m.draw.randint(1, 4)
    return {"values": [x, m.input(tuple(shape)), x][:m.draw.randint(2, 3)], "axis": axis}


def _stack(m: Maker) -> dict[str, Any]:
    x = m.real(1, 4)
    return {"values": [x, m.real(shape=x.shape)], "axis": m.draw.randint(0, x.type.rank)}


def _slice(m: Maker) -> dict[str, Any]:
    x = m.real()
    begin = [m.draw.randrange(extent) for extent in x.shape]
    end = [m.draw.randint(low + 1, extent) for low, extent in zip(begin, x.shape, strict=True)]
    return {"x": x, "begin": begin, "end": end, "stride": [m.draw.choice((1, 1, 2, 3)) for _ in begin]}


def _slice_by_size(m: Maker) -> dict[str, Any]:
    found = _slice(m)
    return {"x": found["x"], "begin": found["begin"],
            "size": [high - low for low, high in zip(found["begin"], found["end"], strict=True)]}


def _slice_update(m: Maker) -> dict[str, Any]:
    found = _slice(m)
    found["stride"] = [1] * len(found["begin"])
    shape = tuple(high - low for low, high in zip(found["begin"], found["end"], strict=True))
    return {**found, "update": m.real(shape=shape)}


def _split(m: Maker) -> dict[str, Any]:
    x = m.real()
    axis = m.axis(x)
    if m.flip() or x.shape[axis] == 1:
        return {"x": x, "axis": axis, "num_splits": m.draw.choice(_divisors(x.shape[axis]))}
    first = m.draw.randrange(1, x.shape[axis])
    return {"x": x, "axis": axis, "split_sizes": [first, x.shape[axis] - first]}


def _pad(m: Maker) -> dict[str, Any]:
    x = m.real(1, 4)
    mode = m.draw.choice(("constant", "constant", "reflect", "replicate"))
    top = [2 if mode == "constant" else min(2, extent - 1) for extent in x.shape]
    first = 0 if mode == "constant" else max(0, x.type.rank - 2)
    pad = [m.draw.randint(0, top[axis]) if axis >= first else 0 for axis in range(x.type.rank) for _ in "ab"]
    return {"x": x, "pad": pad, "mode": mode, "constant_val": 1.5 if mode == "constant" else 0.0}


def _gather(m: Maker) -> dict[str, Any]:
    x = m.real(1, 4)
    axis = m.axis(x)
    return {"x": x, "axis": axis, "indices": m.indices(x.shape[axis], m.shape(1, 2)[:5 - x.type.rank + 1] or (2,))}


def _gather_along(m: Maker, key: str = "x") -> dict[str, Any]:
    x = m.real(1, 4)
    axis = m.axis(x)
    shape = list(x.shape)
    shape[axis] = m.draw.randint(1, 4)
    return {key: x, "axis": axis, "indices": m.indices(x.shape[axis], tuple(shape))}


def _gather_nd(m: Maker) -> dict[str, Any]:
    x = m.real(2, 4)
    rows = [m.draw.randrange(extent) for extent in x.shape[:2]]
    return {"x": x, "indices": np.array([rows, [0, 0]], np.int32)}


def _scatter(m: Maker) -> dict[str, Any]:
    data = m.real(1, 4)
    axis = m.axis(data)
    count = m.draw.randint(1, data.shape[axis])
    places = np.array(m.draw.sample(range(data.shape[axis]), count), np.int32)
    at = axis % data.type.rank
    shape = (*data.shape[:at], count, *data.shape[at + 1:])
    return {"data": data, "indices": places, "updates": m.real(shape=shape), "axis": axis,
            "mode": m.draw.choice(("add", "update", "mul", "max", "min"))}


def _scatter_along(m: Maker) -> dict[str, Any]:
    found = _gather_along(m, "data")
    found["indices"] = np.sort(found["indices"], axis=found["axis"])
    return {**found, "updates": m.real(shape=found["indices"].shape), "mode": m.draw.choice(("add", "max"))}


def _scatter_nd(m: Maker) -> dict[str, Any]:
    data = m.real(2, 4)
    places = np.array([[m.draw.randrange(data.shape[0])]], np.int32)
    return {"data": data, "indices": places, "updates": m.real(shape=(1, *data.shape[1:])),
            "mode": m.draw.choice(("add", "update"))}


def _resize(m: Maker) -> dict[str, Any]:
    x = m.real(3, 4)
    return {"x": x, "target_size_height": m.draw.randint(1, 9), "target_size_width": m.draw.randint(1, 9)}


def _blocks(m: Maker, kind: str) -> dict[str, Any]:
    n, c, h, w = (m.draw.randint(1, 3) for _ in "nchw")
    shape = (n, 4 * c, h, w) if kind == "depth" else (n, c, 2 * h, 2 * w)
    return {"x": m.real(shape=shape)}


def _sampled(m: Maker, affine: bool) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "sampling_mode": "bilinear", "padding_mode": m.draw.choice(("constant", "border")), "padding_value": 0.5,
        "coordinates_mode": "normalized_minus_one_to_one", "align_corners": m.flip()}
    if affine:
        settings.update(padding_mode="constant", padding_value=0.0, align_corners=True)
    x = m.real(shape=(2, 3, 5, 6))
    if affine:
        turn = np.array([[0.9, 0.2, 0.1, -0.2, 0.8, 0]] * 2, np.float32)
        return {"x": x, "transform_matrix": turn, "output_height": 4, "output_width": 7, **settings}
    at = m.numbers.uniform(-1.2, 1.2, (2, 3, 4, 2)).astype(np.float32)
    return {"x": x, "coordinates": at, **settings}


def _some(m: Maker) -> dict[str, Any]:
    x = m.real()
    return {"x": x, "axes": m.axes(x)}


TABLE: Mapping[str, Operands] = {
    "reshape": _reshape,
    "transpose": lambda m: (lambda x: {"x": x, "perm": m.draw.sample(
        range(x.type.rank), x.type.rank)})(m.real()),
    "concat": _concat, "stack": _stack, "slice_by_index": _slice, "slice_by_size": _slice_by_size,
    "slice_update": _slice_update, "split": _split, "pad": _pad,
    "tile": lambda m: (lambda x: {"x": x, "reps": [m.draw.randint(1, 3) for _ in x.shape]})(m.real(1, 4)),
    "reverse": _some,
    "expand_dims": lambda m: (lambda x: {"x": x, "axes": [m.draw.randint(0, x.type.rank)]})(
        m.real(1, 4)),
    "squeeze": lambda m: {"x": m.real(shape=(1, 3, 1, 5)), "axes": m.draw.choice(([0], [2], [0, 2], [-2]))},
    "flatten2d": lambda m: (lambda x: {"x": x, "axis": m.draw.randint(1, x.type.rank)})(m.real(2, 5)),
    "reshape_like": lambda m: {"x": m.real(shape=(2, 6)), "ref_tensors": (m.real(shape=(3, 4)),), "begins": (0,),
                               "ends": (2,), "end_masks": (False,)},
    "gather": _gather, "gather_along_axis": _gather_along, "gather_nd": _gather_nd, "scatter": _scatter,
    "scatter_along_axis": _scatter_along, "scatter_nd": _scatter_nd,
    "band_part": lambda m: {
        "x": m.real(2, 4), "lower": m.draw.randint(-1, 2), "upper": m.draw.randint(-1, 2)},
    "crop": lambda m: {"x": m.real(shape=(1, 3, 5, 6)), "crop_height": [1, 1], "crop_width": [0, 2]},
    "depth_to_space": lambda m: {**_blocks(m, "depth"), "block_size": 2},
    "pixel_shuffle": lambda m: {**_blocks(m, "depth"), "upscale_factor": 2},
    "space_to_depth": lambda m: {**_blocks(m, "space"), "block_size": 2},
    "pixel_unshuffle": lambda m: {**_blocks(m, "space"), "downscale_factor": 2},
    "space_to_batch": lambda m: {**_blocks(m, "space"), "block_shape": [2, 2], "paddings": [[0, 0], [0, 0]]},
    "batch_to_space": lambda m: {"x": m.real(shape=(4, 3, 2, 3)), "block_shape": [2, 2], "crops": [[0, 1], [0, 0]]},
    "sliding_windows": lambda m: {"x": m.real(shape=(2, 3, 6)), "axis": -1, "size": 3, "stride": m.draw.randint(1, 2)},
    "upsample_nearest_neighbor": lambda m: {"x": m.real(3, 4), "scale_factor_height": 2.0, "scale_factor_width": 3.0},
    "upsample_bilinear": lambda m: {"x": m.real(3, 4), "scale_factor_height": 2.0, "scale_factor_width": 2.0,
                                    "align_corners": m.flip()},
    "resize_bilinear": _resize, "resize_nearest_neighbor": _resize,
    "resize": lambda m: {
        "x": m.real(shape=(1, 2, 4, 5)), "shape": [7, 3], "resized_dims": 2, "interpolation_mode": m.draw.choice(
            ("LINEAR", "NEAREST_NEIGHBOR"))},
    "reverse_sequence": lambda m: {"x": m.real(shape=(3, 4, 2)), "lengths": np.array([4, 1, 3], np.int32),
                                   "seq_axis": 1, "batch_axis": 0},
    "resample": lambda m: _sampled(m, False), "affine": lambda m: _sampled(m, True),
    "crop_resize": lambda m: {
        "x": m.real(shape=(2, 3, 7, 9)), "boxes": np.array([[1, 1, 5, 6], [0, 2, 4, 7]], np.float16),
        "box_indices": np.array([1, 0], np.int32), "target_height": 3, "target_width": 4},
}
"""Operands by operation."""
