"""Nodes for tests of writing ONNX that random operands do not show: each an operation with its inputs and operands."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from support.random_graphs import draw_graph
from support.random_operands import TABLE

from openane.errors import GraphError
from openane.graph import Graph
from openane.ops import Op
from openane.ops.build import GraphBuilder

Made = tuple[dict[str, tuple[str, tuple[int, ...]]], dict[str, Any]]
"""Inputs (element type and shape) by name, and operands, which name inputs by strings that begin with `$`."""
RNG = np.random.default_rng(0)


def half(*shape: int) -> np.ndarray:
    return (RNG.integers(-8, 9, shape) / 8).astype(np.float16)


def _image(*shape: int, **operands: Any) -> Made:
    return {"x": ("fp16", shape)}, {"x": "$x", **operands}


def _resampled(padding: str, mode: str, corners: bool, sampling: str = "bilinear", value: float = 0.0,
               **more: Any) -> Made:
    at = RNG.uniform(-1.3, 1.3, (2, 3, 4, 2)).astype(np.float32)
    at = at if mode.endswith("minus_one_to_one") else (at + 1) / 2 if mode.startswith("norm") else at * 3 + 2
    return _image(2, 3, 5, 6, coordinates=at.astype(np.float32), sampling_mode=sampling, padding_mode=padding,
                  padding_value=np.float16(value), coordinates_mode=mode, align_corners=corners, **more)


def _cell(gates: int, **settings: Any) -> Made:
    both = settings.get("direction") == "bidirectional"
    names = [f"{name}{side}" for side in ("", "_back")[:1 + both] for name in ("weight_ih", "weight_hh", "bias")]
    shapes = {"weight_ih": (gates * 2, 3), "weight_hh": (gates * 2, 2), "bias": (gates * 2,)}
    weights = {name: half(*shapes[name.removesuffix("_back")]) for name in names}
    states = ("initial_h", "initial_c")[:1 + (gates == 4)]
    ports = {"x": ("fp16", (5, 2, 3)), **dict.fromkeys(states, ("fp16", (2, 2 * (1 + both))))}
    return ports, {**{name: f"${name}" for name in ports}, **weights, **settings}


_CLASSES, _BITS = {"x": ("int32", (3, 1)), "y": ("int32", (4,))}, {"x": "$x", "y": "$y"}
_ZERO_ONE, _MINUS, _PLAIN = "normalized_zero_to_one", "normalized_minus_one_to_one", "unnormalized"
CASES: Mapping[str, tuple[str, Callable[[], Made]]] = {
    "a mask of booleans": ("scaled_dot_product_attention", lambda: (
        {"q": ("fp16", (1, 2, 3, 4)), "m": ("bool", (3, 3))},
        {"query": "$q", "key": "$q", "value": "$q", "attn_mask": "$m"})),
    "bits: and": ("bitwise_and", lambda: (_CLASSES, _BITS)), "bits: or": ("bitwise_or", lambda: (_CLASSES, _BITS)),
    "bits: xor": ("bitwise_xor", lambda: (_CLASSES, _BITS)),
    "bits to the left": ("shift_left", lambda: (_CLASSES, {"x": "$x", "y": np.array([0, 3, 31, 40], np.int32)})),
    "bits to the right": ("shift_right", lambda: (_CLASSES, {"x": "$x", "y": np.array([0, 1, 32, -2], np.int32)})),
    "boxes by image": ("crop_resize", lambda: _image(
        2, 3, 5, 6, boxes=np.array([[0, 0, 3, 4], [1, 2, 7, 5.5]], np.float32), box_indices=np.array([1, 0], np.int32),
        target_height=3, target_width=4, pad_value=np.float16(0.5))),
    "ceiling of an average": ("avg_pool", lambda: _image(
        1, 2, 6, 7, kernel_sizes=[3, 2], strides=[2, 2], pad_type="custom", pad=[1, 1, 0, 0], ceil_mode=True)),
    "ceiling of a maximum": ("max_pool", lambda: _image(
        1, 2, 6, 7, kernel_sizes=[3, 2], strides=[2, 2], pad_type="valid", ceil_mode=True)),
    "ceiling of a norm": ("l2_pool", lambda: _image(
        1, 2, 6, 7, kernel_sizes=[3, 2], strides=[2, 2], pad_type="valid", ceil_mode=True)),
    "combined by division": ("scatter", lambda: (
        {"d": ("fp16", (4, 3)), "u": ("fp16", (2, 3))},
        {"data": "$d", "updates": "$u", "indices": np.array([1, -1], np.int32), "mode": "sub"})),
    "computed positions": ("gather", lambda: (
        {"x": ("fp16", (2, 3, 7, 5)), "i": ("int32", (2, 4))}, {"x": "$x", "indices": "$i", "axis": 2})),
    "computed positions, by batch": ("gather", lambda: (
        {"x": ("fp16", (2, 3, 7, 5)), "i": ("int32", (2, 4, 3))},
        {"x": "$x", "indices": "$i", "axis": 2, "batch_dims": 1})),
    "computed lengths": ("reverse_sequence", lambda: (
        {"x": ("fp16", (3, 8, 2)), "n": ("int32", (3,))},
        {"x": "$x", "lengths": "$n", "seq_axis": 1, "batch_axis": 0})),
    "from the end": ("slice_by_index", lambda: _image(
        4, 5, 6, begin=[-1, 4, 2], end=[0, 0, 0], stride=[-2, -1, 1], begin_mask=[False, False, False],
        end_mask=[True, True, True], squeeze_mask=[False, False, True])),
    "gru backwards": ("gru", lambda: _cell(3, direction="reverse", output_sequence=True)),
    "interleaved": ("concat", lambda: (
        {"a": ("fp16", (2, 3, 2)), "b": ("fp16", (2, 3, 2))}, {"values": ("$a", "$b"), "axis": 1, "interleave": True})),
    "kept boxes": ("non_maximum_suppression", lambda: (
        {"b": ("fp16", (1, 6, 4)), "s": ("fp16", (1, 2, 6))},
        {"boxes": "$b", "scores": "$s", "most": 4, "overlap": 0.4, "least_score": 0.1})),
    "lstm both ways": ("lstm", lambda: _cell(4, direction="bidirectional", output_sequence=True, peephole=half(6),
                                             peephole_back=half(6))),
    "lstm both ways, the last": ("lstm", lambda: _cell(4, direction="bidirectional", activation="relu",
                                                       recurrent_activation="sigmoid_hard")),
    "norm over other axes": ("layer_norm", lambda: _image(2, 4, 5, axes=[1], gamma=half(4), beta=half(4),
                                                          epsilon=np.float16(0.01))),
    "products of elements": ("reduce_prod", lambda: _image(2, 3, 4, axes=[1], keep_dims=True)),
    "reflected between": ("resample", lambda: _resampled("symmetric", _MINUS, True)),
    "reflected at elements": ("resample", lambda: _resampled("reflection", _ZERO_ONE, False)),
    "regions": ("roi_align", lambda: (
        {"x": ("fp16", (2, 3, 8, 9)), "r": ("fp16", (2, 4))},
        {"x": "$x", "rois": np.array([[1, 1, 5, 6], [0, 2, 7, 7]], np.float16),
         "batch_indices": np.array([1, 0], np.int32), "output_height": 2, "output_width": 3, "sampling_ratio": 2})),
    "rnn": ("rnn", lambda: _cell(1, activation="relu")),
    "results beyond the kernel": ("conv_transpose", lambda: _image(
        1, 2, 4, 4, weight=half(2, 3, 3, 3), pad_type="custom", pad=[1, 1, 1, 0], strides=[2, 2],
        output_shape=[1, 3, 8, 8])),
    "sampled at elements": ("resample", lambda: _resampled("border", _PLAIN, True, "nearest")),
    "sampled beside": ("resample", lambda: _resampled(
        "border", _PLAIN, True, scale=RNG.uniform(0.5, 1, (2, 3, 4, 2)).astype(np.float32),
        offset=RNG.uniform(-1, 1, (2, 3, 4, 2)).astype(np.float32))),
    "sampled with a padding": ("resample", lambda: _resampled("constant", _ZERO_ONE, True, value=0.75)),
    "space to batch": ("space_to_batch", lambda: _image(1, 2, 4, 5, block_shape=[2, 3],
                                                        paddings=np.array([[1, 1], [1, 0]], np.int32))),
    "weights of 8 bits": ("constexpr_affine_dequantize", lambda: ({}, {
        "quantized_data": RNG.integers(-9, 9, (4, 3), np.int8), "scale": half(4) + np.float16(2),
        "zero_point": np.array(3, np.int8), "axis": 0})),
}
"""Operation and its operands, by what is special."""


def graph_of(name: str) -> Graph:
    """The graph of a case: its inputs and the one node."""
    op, make = CASES[name]
    ports, operands = make()
    builder = GraphBuilder()
    inputs = {port: builder.input(port, *type_) for port, type_ in ports.items()}

    def swapped(operand: Any) -> Any:
        if isinstance(operand, tuple):
            return tuple(map(swapped, operand))
        return inputs[operand[1:]] if isinstance(operand, str) and operand.startswith("$") else operand

    made = builder.add(op, **{key: swapped(operand) for key, operand in operands.items()})
    return builder.finish(list(made) if isinstance(made, tuple) else [made])


def takes_inputs(op: Op) -> bool:
    """Whether the operation computes anything while a model runs."""
    return not all(parameter.const or parameter.kind == "own" for parameter in op.parameters)


def drawn(op: str, seed: int) -> Graph | None:
    """A random graph of the operation alone, where the seed gives one."""
    try:
        return draw_graph(seed, TABLE, 1, op)
    except GraphError:
        return None
