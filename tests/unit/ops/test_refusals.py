"""Operands that do not fit are refused with the operation, the operand and what would pass."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from openane.errors import GraphError, UnsupportedError
from openane.graph import Node, TensorType, Value
from openane.ops import Op, Parameter, all_ops, arguments, get_op, register, result_types
from openane.ops.build import GraphBuilder

IMAGE, MATRIX = ("fp16", (1, 4, 8, 8)), ("fp16", (2, 3))
INTEGERS, FLAGS = ("int32", (2, 3)), ("bool", (2, 3))


def zeros(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float16)


BOXES, SCORES = ("fp16", (1, 5, 4)), ("fp16", (1, 2, 6))
REFUSED: list[tuple[str, dict[str, Any], str, str]] = [
    # operation, operands ((dtype, shape) stands for an input), the operand at fault, a piece of the remedy
    ("bitwise_and", {"x": MATRIX, "y": MATRIX}, "x", "int32"),
    ("shift_left", {"x": INTEGERS, "y": ("int32", (7,))}, "y", "or 1"),
    ("non_maximum_suppression", {"boxes": BOXES, "scores": SCORES, "most": 3}, "scores", "[1, classes, 5]"),
    ("roi_align", {"x": IMAGE, "rois": ("fp16", (3, 5)), "batch_indices": ("int32", (3,))}, "rois", "[3, 4]"),
    ("conv", {"x": MATRIX, "weight": zeros(4, 4, 1, 1)}, "x", "rank 3 to 5"),
    ("conv", {"x": IMAGE, "weight": zeros(4, 4, 1)}, "weight", "rank 4"),
    ("conv", {"x": IMAGE}, "weight", "is missing"),
    ("conv", {"x": IMAGE, "weight": zeros(4, 3, 1, 1)}, "weight", "4 / 1 = 4"),
    ("conv", {"x": IMAGE, "weight": zeros(4, 4, 1, 0)}, "weight", "at least one element"),
    ("conv", {"x": IMAGE, "weight": zeros(6, 1, 1, 1), "groups": 4}, "groups", "divide the 4 channels"),
    ("conv", {"x": IMAGE, "weight": zeros(4, 4, 1, 1), "groups": 0}, "groups", "must be 1 to"),
    ("conv", {"x": IMAGE, "weight": zeros(4, 4, 1, 1), "bias": zeros(3)}, "bias", "shape [4]"),
    ("conv", {"x": IMAGE, "weight": zeros(4, 4, 1, 1), "strides": [0, 1]}, "strides", "1 or more"),
    ("conv", {"x": IMAGE, "weight": zeros(4, 4, 1, 1), "strides": [1]}, "strides", "2 integers"),
    ("conv", {"x": IMAGE, "weight": zeros(4, 4, 1, 1), "strides": [1.5, 1]}, "strides", "int32"),
    ("conv", {"x": IMAGE, "weight": zeros(4, 4, 1, 1), "pad_type": "full"}, "pad_type", "valid, same, custom"),
    ("conv", {"x": IMAGE, "weight": zeros(4, 4, 1, 1), "pad_type": "custom", "pad": [0, 1]}, "pad", "4 integers"),
    ("conv", {"x": IMAGE, "weight": zeros(4, 4, 1, 1), "pad_type": "custom", "pad": [-1, 0, 0, 0]}, "pad", "0 or more"),
    ("conv", {"x": IMAGE, "weight": zeros(4, 4, 1, 1), "pad_type": "custom", "pad": [2 ** 30] * 4}, "pad", "at most"),
    ("conv", {"x": IMAGE, "weight": zeros(4, 4, 9, 1)}, "x", "9 elements"),
    ("conv", {"x": IMAGE, "weight": zeros(4, 4, 3, 3), "dilations": [4, 1]}, "x", "9 elements"),
    ("conv", {"x": IMAGE, "weight": zeros(4, 4, 1, 1), "stride": [1, 1]}, "stride", "strides"),
    ("linear", {"x": MATRIX, "weight": zeros(4, 2)}, "weight", "[Dout, 3]"),
    ("linear", {"x": MATRIX, "weight": zeros(3)}, "weight", "rank 2"),
    ("linear", {"x": MATRIX, "weight": MATRIX}, "weight", "constant"),
    ("linear", {"x": MATRIX, "weight": zeros(4, 3), "bias": zeros(4, 1)}, "bias", "shape [4]"),
    ("matmul", {"x": MATRIX, "y": ("fp16", (2, 3))}, "y", "3 rows"),
    ("matmul", {"x": MATRIX, "y": ("fp32", (3, 2))}, "y", "elements of fp16"),
    ("matmul", {"x": ("fp16", ()), "y": MATRIX}, "x", "rank 1 to 8"),
    ("matmul", {"x": ("fp16", (3,)), "y": MATRIX, "transpose_x": True}, "transpose_x", "false"),
    ("matmul", {"x": ("fp16", (2, 2, 3)), "y": ("fp16", (5, 3, 4))}, "y", "must be 2 or 1"),
    ("add", {"x": MATRIX, "y": ("fp16", (2, 2))}, "y", "must be 3 or 1"),
    ("add", {"x": FLAGS, "y": FLAGS}, "x", "fp16 or fp32 or int32"),
    ("real_div", {"x": INTEGERS, "y": INTEGERS}, "x", "fp16 or fp32"),
    ("mul", {"x": MATRIX, "y": "two"}, "y", "must be a tensor"),
    ("mul", {"x": (MATRIX, MATRIX), "y": MATRIX}, "x", "one value"),
    ("add", {"x": INTEGERS, "y": 0.5}, "y", "int32"),
    ("relu", {"x": INTEGERS}, "x", "fp16 or fp32"),
    ("relu", {"x": MATRIX, "alpha": 1}, "alpha", "is not one it takes (x)"),
    ("leaky_relu", {"x": MATRIX}, "alpha", "is missing"),
    ("leaky_relu", {"x": MATRIX, "alpha": [0.1]}, "alpha", "one number"),
    ("leaky_relu", {"x": MATRIX, "alpha": ("fp16", ())}, "alpha", "constant"),
    ("clip", {"x": MATRIX, "alpha": 2, "beta": 1}, "alpha", "beta = 1"),
    ("gelu", {"x": MATRIX, "mode": "FAST"}, "mode", "EXACT, TANH_APPROXIMATION"),
    ("gelu", {"x": MATRIX, "mode": 1}, "mode", "string"),
    ("softmax", {"x": MATRIX, "axis": 2}, "axis", "-2 to 1"),
    ("softmax", {"x": ("fp16", ()), "axis": 0}, "x", "rank 1"),
    ("softmax", {"x": MATRIX, "axis": [0]}, "axis", "one integer"),
    ("max_pool", {"x": IMAGE, "pad_type": "valid"}, "kernel_sizes", "is missing"),
    ("max_pool", {"x": IMAGE, "kernel_sizes": [2, 2]}, "pad_type", "is missing"),
    ("max_pool", {"x": IMAGE, "kernel_sizes": [2], "pad_type": "valid"}, "kernel_sizes", "2 integers"),
    ("max_pool", {"x": IMAGE, "kernel_sizes": [9, 2], "pad_type": "valid"}, "x", "9 elements"),
    ("max_pool", {"x": IMAGE, "kernel_sizes": [2, 2], "pad_type": "custom", "pad": [2, 0, 0, 0]}, "pad",
     "less than the kernel"),
    ("max_pool", {"x": IMAGE, "kernel_sizes": [2, 2], "pad_type": "same", "ceil_mode": True}, "ceil_mode", "false"),
    ("max_pool", {"x": IMAGE, "kernel_sizes": [2, 2], "pad_type": "valid", "ceil_mode": 1}, "ceil_mode", "bool"),
    ("avg_pool", {"x": IMAGE, "kernel_sizes": [2, 2], "pad_type": "custom", "pad": [1, 0, 0, 0], "ceil_mode": True},
     "pad", "same before and after"),
    ("max_pool", {"x": IMAGE, "kernel_sizes": [2, 2], "pad_type": "valid", "exclude_padding_from_average": True},
     "exclude_padding_from_average", "is not one it takes"),
    ("reduce_sum", {"x": MATRIX, "axes": [2]}, "axes", "-2 to 1"),
    ("reduce_sum", {"x": MATRIX, "axes": [1, -1]}, "axes", "once"),
    ("reduce_max", {"x": MATRIX, "axes": 1}, "axes", "vector"),
    ("reduce_mean", {"x": MATRIX, "keep_dims": "yes"}, "keep_dims", "bool"),
    ("reshape", {"x": MATRIX, "shape": [5]}, "shape", "6 elements"),
    ("reshape", {"x": MATRIX, "shape": [-1, -1]}, "shape", "-1 once"),
    ("reshape", {"x": MATRIX, "shape": [0]}, "shape", "as many dimensions"),
    ("reshape", {"x": MATRIX, "shape": [4, -1]}, "shape", "6 elements"),
    ("reshape", {"x": MATRIX, "shape": [-2, 3]}, "shape", "-1 or more"),
    ("reshape", {"x": MATRIX, "shape": INTEGERS}, "shape", "constant"),
    ("squeeze", {"x": MATRIX, "axes": [0]}, "axes", "1 element"),
    ("expand_dims", {"x": MATRIX, "axes": [0, 0]}, "axes", "once"),
    ("expand_dims", {"x": MATRIX, "axes": [3]}, "axes", "-3 to 2"),
    ("flatten2d", {"x": MATRIX, "axis": 3}, "axis", "-2 to 2"),
    ("transpose", {"x": MATRIX, "perm": [0, 0]}, "perm", "once"),
    ("transpose", {"x": MATRIX, "perm": [0]}, "perm", "2 integers"),
    ("transpose", {"x": MATRIX, "perm": [0, 2]}, "perm", "once"),
    ("concat", {"values": (MATRIX, ("fp16", (2, 2))), "axis": 0}, "values", "but for axis 0"),
    ("concat", {"values": (MATRIX, ("fp32", (2, 3))), "axis": 0}, "values", "element type"),
    ("concat", {"values": (MATRIX, ("fp16", (2, 2))), "axis": 1, "interleave": True}, "values", "interleaved"),
    ("concat", {"values": (), "axis": 0}, "values", "at least one"),
    ("concat", {"values": (MATRIX,), "axis": 5}, "axis", "-2 to 1"),
    ("tile", {"x": MATRIX, "reps": [2]}, "reps", "2 integers"),
    ("tile", {"x": MATRIX, "reps": [2, 0]}, "reps", "1 or more"),
    ("cast", {"x": MATRIX, "dtype": "fp8"}, "dtype", "fp16, fp32"),
    ("batch_norm", {"x": IMAGE, "mean": zeros(4)}, "variance", "is missing"),
    ("batch_norm", {"x": IMAGE, "mean": zeros(3), "variance": zeros(4)}, "mean", "shape [4]"),
    ("batch_norm", {"x": MATRIX, "mean": zeros(3), "variance": zeros(3)}, "x", "rank 3 to 5"),
    ("layer_norm", {"x": MATRIX, "axes": [1], "gamma": zeros(2)}, "gamma", "shape [3]"),
    ("layer_norm", {"x": MATRIX, "axes": [-3]}, "axes", "-2 to 1"),
    ("pad", {"x": MATRIX, "pad": [1, 1, 1]}, "pad", "two counts"),
    ("pad", {"x": MATRIX, "pad": [0, 0, 0, 0, 1, 1]}, "pad", "at most 2 dimensions"),
    ("pad", {"x": MATRIX, "pad": [1, 3], "mode": "reflect"}, "pad", "at most 2"),
    ("pad", {"x": MATRIX, "pad": [1, 1], "mode": "wrap"}, "mode", "constant, reflect, replicate"),
    ("pad", {"x": MATRIX, "pad": [2 ** 31 - 1, 2 ** 31 - 1]}, "x", "elements"),
    ("equal", {"x": MATRIX, "y": ("fp16", (2, 2))}, "y", "broadcast"),
    ("less", {"x": MATRIX, "y": ("int32", (2, 3))}, "y", "fp16"),
    ("logical_xor", {"x": ("bool", (2, 3)), "y": MATRIX}, "y", "bool"),
    ("select", {"cond": MATRIX, "a": MATRIX, "b": MATRIX}, "cond", "bool"),
    ("select", {"cond": ("bool", (4,)), "a": MATRIX, "b": MATRIX}, "cond", "broadcast"),
    ("mod", {"x": MATRIX, "y": ("fp16", (4,))}, "y", "broadcast"),
    ("prelu", {"x": IMAGE, "alpha": zeros(3)}, "alpha", "shape [4]"),
    ("prelu", {"x": MATRIX, "alpha": zeros(3)}, "x", "rank 3 to 5"),
    ("softplus_parametric", {"x": IMAGE, "alpha": zeros(4), "beta": zeros(5)}, "beta", "shape [4]"),
    ("nearest_steps", {"x": MATRIX, "low": 2.0, "high": 1.0}, "low", "exceed"),
    ("nearest_steps", {"x": MATRIX, "low": 0.0, "high": 512.0}, "high", "from -511 to 511"),
    ("nearest_steps", {"x": MATRIX, "low": 0.0, "high": 9.0, "units": 0.0}, "units", "normal"),
    ("nearest_steps", {"x": MATRIX, "low": 0.0, "high": 9.0, "y": MATRIX}, "units", "must be given"),
    ("nearest_steps", {"x": MATRIX, "low": 0.0, "high": 9.0, "parts": 3.0}, "parts", "power of two"),
    ("nearest_steps", {"x": MATRIX, "low": 0.0, "high": 9.0, "units": 1.0, "parts": 2.0}, "parts", "units"),
    ("nearest_steps", {"x": MATRIX, "low": 0.0, "high": 9.0, "units": 1.0, "y": IMAGE}, "y", "rank"),
    ("nearest_steps", {"x": MATRIX, "low": 0.0, "high": 9.0, "units": 1.0, "y": MATRIX, "ratio": 0.1}, "ratio", "fp16"),
    ("whole_norm", {"x": IMAGE, "gain": 1.0}, "x", "3"),
    ("whole_norm", {"x": ("fp16", (2, 1, 4)), "gain": zeros(3, 1, 1)}, "gain", "broadcast"),
    ("whole_norm", {"x": ("fp16", (2, 1, 4)), "gain": 1.0, "offset": 4096.0}, "offset", "2048"),
    ("whole_norm", {"x": ("fp16", (2, 1, 4)), "gain": 1.0, "epsilon": -1.0}, "epsilon", "below 0"),
    ("whole_norm", {"x": ("fp16", (2, 1, 4)), "gain": 1.0, "spread": ("fp16", (1, 1, 1))}, "spread", "shape"),
    ("whole_spread", {"x": ("fp16", (2, 1, 4)), "units": 0.0}, "units", "above 0"),
    ("lut_activation", {"x": MATRIX, "knots": zeros(32), "clips": zeros(2), "values": zeros(2), "exponent": 0}, "knots",
     "shape [33]"),
    ("softmax", {"x": MATRIX, "scale": 0.0}, "scale", "above 0"),
    ("softmax", {"x": MATRIX, "scale": 1e9}, "scale", "finite fp16"),
    ("silu", {"x": MATRIX, "exponent": 127}, "exponent", "-126 to 126"),
    ("instance_norm", {"x": IMAGE, "gamma": zeros(3)}, "gamma", "shape [4]"),
    ("instance_norm", {"x": MATRIX}, "x", "rank 3 to 5"),
    ("l2_norm", {"x": MATRIX}, "x", "rank 3"),
    ("rms_norm", {"x": MATRIX, "axes": [1], "gamma": zeros(2)}, "gamma", "shape [3]"),
    ("local_response_norm", {"x": IMAGE, "size": 0}, "size", "must be 1 to"),
    ("reduce_l2_norm", {"x": MATRIX, "axes": [2]}, "axes", "-2 to 1"),
    ("reduce_argmax", {"x": MATRIX, "axis": 2}, "axis", "-2 to 1"),
    ("reduce_argmax", {"x": MATRIX, "output_dtype": "int8"}, "output_dtype", "int32, uint16"),
    ("topk", {"x": MATRIX, "k": 4}, "k", "-1 to 3"),
    ("topk", {"x": MATRIX, "k": 0}, "k", "1 to 3, or -1"),
    ("argsort", {"x": MATRIX, "axis": -3}, "axis", "-2 to 1"),
    ("scaled_dot_product_attention", {"query": MATRIX, "key": MATRIX, "value": MATRIX}, "query", "rank 3"),
    ("scaled_dot_product_attention", {"query": IMAGE, "key": IMAGE, "value": ("fp16", (1, 4, 7, 8))}, "value",
     "sequence of key"),
    ("einsum", {"values": (MATRIX, MATRIX), "equation": "ij,jk"}, "equation", "'->'"),
    ("einsum", {"values": (MATRIX, MATRIX), "equation": "ij,jk->ik"}, "values", "agree in dimension 'j'"),
    ("einsum", {"values": (MATRIX,), "equation": "ij->i"}, "values", "two tensors"),
    ("lstm", {"x": ("fp16", (5, 1, 3)), "initial_h": zeros(1, 2), "initial_c": zeros(1, 2), "weight_ih": zeros(8, 3),
              "weight_hh": zeros(6, 2)}, "weight_hh", "shape [8, 2]"),
    ("lstm", {"x": ("fp16", (5, 1, 3)), "initial_h": zeros(1, 4), "initial_c": zeros(1, 4), "weight_ih": zeros(8, 3),
              "weight_hh": zeros(8, 2), "direction": "bidirectional"}, "weight_ih_back", "must be given"),
    ("gru", {"x": ("fp16", (5, 1, 3)), "initial_h": zeros(1, 2), "weight_ih": zeros(6, 3), "weight_hh": zeros(6, 2),
             "direction": "bidirectional"}, "direction", "forward, reverse"),
    ("rnn", {"x": ("fp16", (5, 1, 3)), "initial_h": zeros(2, 2), "weight_ih": zeros(2, 3), "weight_hh": zeros(2, 2)},
     "initial_h", "shape [1, 2]"),
    ("slice_by_index", {"x": MATRIX, "begin": [0, 3], "end": [1, 3]}, "begin", "at least one of the 3"),
    ("slice_by_size", {"x": MATRIX, "begin": [0, 2], "size": [1, 2]}, "size", "elements 0 to 2"),
    ("crop", {"x": IMAGE, "crop_height": [4, 4], "crop_width": [0, 0]}, "crop_height", "at least one of 8"),
    ("slice_update", {"x": MATRIX, "update": MATRIX, "begin": [0, 0], "end": [1, 3]}, "update", "[1, 3]"),
    ("split", {"x": MATRIX, "num_splits": 2, "axis": 1}, "num_splits", "divide the 3"),
    ("stack", {"values": (MATRIX, IMAGE), "axis": 0}, "values", "must all be"),
    ("reverse_sequence", {"x": MATRIX, "lengths": ("int32", (3,))}, "lengths", "hold 2 numbers"),
    ("gather", {"x": MATRIX, "indices": [3], "axis": 1}, "indices", "-3 to 2"),
    ("gather_along_axis", {"x": MATRIX, "indices": ("int32", (3, 3)), "axis": 1}, "indices", "shape of x"),
    ("gather_nd", {"x": MATRIX, "indices": [[0, 0, 0]]}, "indices", "at most 2"),
    ("scatter", {"data": MATRIX, "indices": [0], "updates": MATRIX}, "updates", "[1, 3]"),
    ("scatter_along_axis", {"data": MATRIX, "indices": [[0]], "updates": MATRIX}, "indices", "shape of data"),
    ("scatter_nd", {"data": MATRIX, "indices": [[5]], "updates": ("fp16", (1, 3))}, "indices", "-2 to 1"),
    ("space_to_batch", {"x": IMAGE, "block_shape": [3, 1], "paddings": np.zeros((2, 2), np.int32)}, "block_shape",
     "divide the padded"),
    ("batch_to_space", {"x": IMAGE, "block_shape": [2, 1], "crops": np.zeros((2, 2), np.int32)}, "block_shape",
     "divides the batch"),
    ("sliding_windows", {"x": MATRIX, "axis": 1, "size": 4}, "size", "at most the 3"),
    ("cumsum", {"x": MATRIX, "axis": 2}, "axis", "-2 to 1"),
    ("upsample_bilinear", {"x": IMAGE, "align_corners": True, "half_pixel_centers": True}, "half_pixel_centers",
     "must be false"),
    ("resize_bilinear", {"x": IMAGE, "sampling_mode": "half"}, "sampling_mode", "DEFAULT"),
    ("resize", {"x": MATRIX, "shape": [2, 2, 2], "resized_dims": 1}, "shape", "at most 2 extents"),
    ("crop_resize", {"x": IMAGE, "roi": zeros(1, 4)}, "roi", "rank 5"),
    ("resample", {"x": IMAGE, "coordinates": zeros(2, 2, 2, 2), "sampling_mode": "nearest", "padding_mode": "constant",
                  "padding_value": 0.0, "coordinates_mode": "unnormalized", "align_corners": True}, "coordinates",
     "[1, height, width, 2]"),
    ("affine", {"x": IMAGE, "transform_matrix": zeros(1, 5), "output_height": 1, "output_width": 1,
                "sampling_mode": "bilinear", "padding_mode": "constant", "padding_value": 0.0,
                "coordinates_mode": "normalized_minus_one_to_one", "align_corners": True}, "transform_matrix",
     "[1, 6]"),
    ("fill", {"shape": [0], "value": 1.0}, "shape", "1 or more"),
    ("fill_like", {"ref_tensor": MATRIX, "value": [1.0, 2.0]}, "value", "one number"),
    ("range_1d", {"start": 0, "end": 3, "step": 0}, "step", "1 to"),
    ("non_zero", {"x": MATRIX}, "x", "must be a constant"),
    ("one_hot", {"indices": [0], "one_hot_vector_size": 0}, "one_hot_vector_size", "must be 1"),
    ("reshape_like", {"x": MATRIX, "ref_tensors": (IMAGE,), "begins": (0,), "ends": (2,), "end_masks": (False,)},
     "ref_tensors", "6 elements"),
    ("conv_transpose", {"x": IMAGE, "weight": zeros(3, 4, 1, 1)}, "weight", "4 channels as its first dimension"),
    ("conv_transpose", {"x": IMAGE, "weight": zeros(4, 4, 1, 1), "pad_type": "custom"}, "pad", "must be given"),
    ("l2_pool", {"x": MATRIX, "kernel_sizes": [2], "pad_type": "valid"}, "x", "rank 3 to 4"),
    ("quantize", {"input": IMAGE, "scale": np.float16(0), "output_dtype": "int8"}, "scale", "must not be 0"),
    ("dequantize", {"input": ("int8", (2, 3)), "scale": np.float16([1, 2])}, "axis", "must be given"),
    ("constexpr_affine_dequantize", {"quantized_data": np.zeros((2, 3), np.int8), "zero_point": np.int8(0), "axis": 0,
                                     "scale": np.ones(3, np.float16)}, "scale", "a vector of 2"),
    ("constexpr_blockwise_shift_scale", {"data": np.zeros((4, 4), np.int8), "scale": np.ones((3, 1), np.float16)},
     "scale", "divide every dimension"),
    ("constexpr_sparse_blockwise_shift_scale", {"data_mask": np.ones((4, 4), np.uint8), "scale": np.ones(1, np.float16),
                                                "nonzero_data": np.ones(16, np.int8)}, "scale", "divide every"),
    ("constexpr_lut_to_dense", {"indices": np.zeros(2, np.uint8), "lut": zeros(3), "shape": [2]}, "lut", "2, 4, 16"),
    ("constexpr_lut_to_sparse", {"indices_mask": np.ones((2, 2), np.uint8), "lut": zeros(1, 4, 1),
                                 "indices_nonzero_data": np.zeros(4, np.uint8)}, "lut", "two dimensions more"),
    ("constexpr_sparse_to_dense", {"nonzero_data": zeros(3), "mask": np.uint8([[1, 0], [0, 1]])}, "nonzero_data",
     "a vector of 2"),
    ("constexpr_cast", {"source_val": zeros(3), "output_dtype": "int8"}, "output_dtype", "one of fp32"),
]


def build(name: str, operands: dict[str, Any]) -> Any:
    builder, count = GraphBuilder(), 0

    def value(given: Any) -> Any:
        nonlocal count
        if isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], str):
            count += 1
            return builder.input(f"in{count}", *given)
        return tuple(value(item) for item in given) if isinstance(given, tuple) else given

    return builder.add(name, "node7", "layer 3", **{key: value(given) for key, given in operands.items()})


@pytest.mark.parametrize(("name", "operands", "operand", "remedy"), REFUSED)
def test_refusals_name_operation_and_operand(name: str, operands: dict[str, Any], operand: str, remedy: str) -> None:
    with pytest.raises(GraphError) as caught:
        build(name, operands)
    message = str(caught.value)
    assert message.startswith(f"{name} 'node7' (from layer 3): operand '{operand}' ")
    assert remedy in message


def test_every_operation_is_refused_somewhere_or_shares_its_rule() -> None:
    families = [{"add", "sub", "mul", "maximum", "minimum"}, {"real_div", "pow"}, {"max_pool", "avg_pool"},
                {"equal", "not_equal", "greater", "greater_equal", "less", "less_equal"}, {"floor_div", "mod"},
                {"logical_and", "logical_or", "logical_xor", "logical_not"}, {"shift_left", "shift_right"},
                {"bitwise_and", "bitwise_or", "bitwise_xor"},
                {"reduce_sum", "reduce_mean", "reduce_max", "reduce_min"}, {"reduce_argmax", "reduce_argmin"}]
    refused = {name for name, *_ in REFUSED}
    shared = set().union(*(family for family in families if family & refused))
    unary = {name for name, op in all_ops().items() if op.parameters[0] == Parameter("x") and len(op.parameters) <= 3}
    assert set(all_ops()) - unary <= refused | shared


@pytest.mark.parametrize("name", sorted(all_ops()))
def test_every_operation_refuses_unknown_and_missing_operands(name: str) -> None:
    x = Value("x", TensorType("fp16", (1, 2, 3, 4)))
    with pytest.raises(GraphError, match=rf"^{name}: operand 'bogus' is not one it takes \("):
        result_types(get_op(name), {"bogus": x})
    first = get_op(name).parameters[0].name
    with pytest.raises(GraphError, match=f"^{name}: operand '{first}' is missing; it takes {first}"):
        result_types(get_op(name), {})


def test_unknown_operations_name_the_nearest() -> None:
    with pytest.raises(UnsupportedError, match=r"leaky_rely(.|\n)*leaky_relu"):
        get_op("leaky_rely")
    with pytest.raises(UnsupportedError, match="`ane ops` lists"):
        get_op("%")
    with pytest.raises(UnsupportedError, match="noise as an input"):
        get_op("random_normal")
    with pytest.raises(UnsupportedError, match="nothing_like_it"):
        arguments(Node("nothing_like_it", {}, ()))


def test_the_registry_refuses_duplicates() -> None:
    relu = get_op("relu")
    with pytest.raises(GraphError, match="relu: described twice"):
        register([relu, relu])
    with pytest.raises(GraphError, match="twice: a parameter is listed twice"):
        register([Op("twice", (Parameter("x"), Parameter("x")), relu.infer, relu.reference)])
