"""Random operands for every operation, for support.random_graphs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from support import random_moves
from support.random_graphs import Maker, Operands
from support.unary import RECORDS

BOUND = {"acos": (0.9, None), "asin": (0.9, None), "atanh": (0.8, None), "exp": (4.0, None), "exp2": (5.0, None),
         "sinh": (3.0, None), "cosh": (3.0, None), "tan": (1.0, None), "sqrt": (9.0, 0.25), "log": (9.0, 0.25),
         "rsqrt": (9.0, 0.25), "inverse": (9.0, 0.25), "erfinv": (0.9, None), "ndtri": (0.9, 0.1),
         "erfcx": (9.0, 0.25), "expm1": (4.0, None), "log1p": (9.0, 0.25), "bessel_i0": (4.0, None),
         "bessel_i1": (4.0, None), "lgamma": (9.0, 0.25), "digamma": (9.0, 0.25), "trigamma": (9.0, 0.25)}
ANY = ("identity", *(name for name, record in RECORDS.items() if not record.parameters and name not in BOUND))
"""Operations of one tensor of any numbers: every function without settings that is not listed above."""
ARITHMETIC = ("add", "sub", "mul", "maximum", "minimum")
COMPARISONS = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
REDUCTIONS = ("reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "reduce_l1_norm", "reduce_l2_norm",
              "reduce_sum_square", "reduce_log_sum_exp")


def _arithmetic(m: Maker) -> dict[str, Any]:
    if m.draw.random() < 0.15:
        x = m.whole()
        return {"x": x, "y": m.partner(x, "int32")}
    x = m.real()
    y = m.partner(x)
    return {"x": x, "y": y} if m.flip() or isinstance(y, np.ndarray) else {"x": y, "y": x}


def _exact_pair(m: Maker) -> dict[str, Any]:
    """Operands straight from ports, so that rounding decides no comparison."""
    shape = m.shape()
    if m.flip():
        return {"x": m.whole(shape=shape), "y": m.whole(shape=shape)}
    return {"x": m.input(shape), "y": m.input(shape) if m.flip() else np.float16(0.25)}


def _divided(m: Maker) -> dict[str, Any]:
    shape = m.shape()
    if m.flip():
        return {"x": m.whole(shape=shape), "y": m.numbers.integers(1, 5, shape, np.int32)}
    return {"x": m.input(shape), "y": np.float16(m.draw.choice((0.5, 2, -1)))}


def _positive_pair(m: Maker) -> dict[str, Any]:
    x = m.real()
    return {"x": x, "y": m.within(8.0, 0.5, shape=x.shape)}


def _logical(m: Maker) -> dict[str, Any]:
    x = m.condition()
    return {"x": x, "y": m.condition(x.shape)}


def _reduction(m: Maker) -> dict[str, Any]:
    x = m.real()
    return {"x": x, "axes": None if m.draw.random() < 0.1 else m.axes(x), "keep_dims": m.flip()}


def _positive_reduction(m: Maker, largest: float = 2.0, least: float = 0.5) -> dict[str, Any]:
    x = m.within(largest, least)
    return {"x": x, "axes": m.axes(x), "keep_dims": m.flip()}


def _arguments(m: Maker) -> dict[str, Any]:
    x = m.input(m.shape())
    return {"x": x, "axis": m.axis(x), "keep_dims": m.flip()}


def _pool(m: Maker, high: int = 5, **extra: Any) -> dict[str, Any]:
    x = m.real(3, high)
    window = m.window(x)
    return {"x": x, "kernel_sizes": window.pop("kernel"), **window, **extra}


def _conv(m: Maker) -> dict[str, Any]:
    x = m.real(3, 5)
    window = m.window(x)
    groups = x.shape[1] if m.flip() else 1
    cout = groups * m.draw.randint(1, 3)
    weight = m.constant((cout, x.shape[1] // groups, *window.pop("kernel")), 0.5)
    return {"x": x, "weight": weight, "bias": m.constant((cout,)) if m.flip() else None, "groups": groups, **window}


def _conv_transpose(m: Maker) -> dict[str, Any]:
    x = m.real(4, 4)
    groups = x.shape[1] if m.flip() else 1
    per = m.draw.randint(1, 2)
    weight = m.constant((x.shape[1], per, m.draw.randint(1, 3), m.draw.randint(1, 3)), 0.5)
    return {"x": x, "weight": weight, "groups": groups, "strides": [m.draw.randint(1, 2) for _ in "hw"],
            "bias": m.constant((per * groups,)) if m.flip() else None, "pad_type": "valid"}


def _norm(m: Maker) -> dict[str, Any]:
    x = m.real(3, 5)
    c = (x.shape[1],)
    return {"x": x, "mean": m.constant(c), "variance": np.abs(m.constant(c)) + np.float16(0.5), "gamma": m.constant(c),
            "beta": m.constant(c)}


def _layer_norm(m: Maker) -> dict[str, Any]:
    x = m.real(2, 5)
    first = m.draw.randrange(1, x.type.rank)
    shape = x.shape[first:]
    return {"x": x, "axes": list(range(first, x.type.rank)), "epsilon": 0.01,
            **({"gamma": m.constant(shape), "beta": m.constant(shape)} if m.flip() else {})}


def _matmul(m: Maker) -> dict[str, Any]:
    x = m.real(2, 4)
    tx, ty = m.flip(), m.flip()
    inner, n = x.shape[-2 if tx else -1], m.draw.randint(1, 6)
    shape = (*(x.shape[:-2] if m.flip() else ()), *((n, inner) if ty else (inner, n)))
    y = m.constant(shape, 0.5) if m.flip() else m.input(shape)
    return {"x": x, "y": y, "transpose_x": tx, "transpose_y": ty}


def _linear(m: Maker) -> dict[str, Any]:
    x = m.real(1, 3)
    n = m.draw.randint(1, 9)
    return {"x": x, "weight": m.constant((n, x.shape[-1]), 0.5), "bias": m.constant((n,)) if m.flip() else None}


def _einsum(m: Maker) -> dict[str, Any]:
    a, b, c, d = (m.draw.randint(1, 5) for _ in "abcd")
    equation, x, y = m.draw.choice([("ab,bc->ac", (a, b), (b, c)), ("abc,abd->acd", (a, b, c), (a, b, d)),
                                    ("abcd,adce->abce", (a, b, c, d), (a, d, c, b))])
    return {"values": (m.real(shape=x), m.real(shape=y)), "equation": equation}


def _attention(m: Maker) -> dict[str, Any]:
    b, h, q, k, e = (m.draw.randint(1, 5) for _ in "bhqke")
    mask = m.input((q, k)) if m.flip() else None
    return {"query": m.real(shape=(b, h, q, e)), "key": m.real(shape=(b, h, k, e)),
            "value": m.real(shape=(b, h, k, e)), "attn_mask": mask}


def _select(m: Maker) -> dict[str, Any]:
    a = m.real()
    return {"cond": m.condition(a.shape), "a": a, "b": m.partner(a)}


def _recurrent(m: Maker, gates: int, cell: bool) -> dict[str, Any]:
    steps, batch, width, hidden = (m.draw.randint(1, 4) for _ in "sbwh")
    state = {name: m.real(shape=(batch, hidden)) for name in ("initial_h", "initial_c")[:1 + cell]}
    return {"x": m.real(shape=(steps, batch, width)), **state, "weight_ih": m.constant((gates * hidden, width), 0.5),
            "weight_hh": m.constant((gates * hidden, hidden), 0.5), "output_sequence": m.flip(),
            "direction": m.draw.choice(("forward", "reverse"))}


def _x(**extra: Any) -> Operands:
    """x of any rank, and numbers."""
    return lambda m: {"x": m.real(), **extra}


def _along(low: int = 1, high: int = 5, **extra: Any) -> Operands:
    """x and one axis."""
    def build(m: Maker) -> dict[str, Any]:
        x = m.real(low, high)
        return {"x": x, "axis": m.axis(x), **extra}
    return build


def _ported(build: Operands) -> Operands:
    """x straight from a port, its numbers distinct, so that rounding decides no order."""
    def ported(m: Maker) -> Mapping[str, Any]:
        found = dict(build(m))
        return {**found, "x": m.input(found["x"].shape)}
    return ported


def _quantize(m: Maker, back: bool = False) -> dict[str, Any]:
    dtype = m.draw.choice(("int8", "uint8"))
    shape = m.shape()
    scale = np.array(m.draw.choice((0.25, 0.5)), np.float16)
    zero = {"zero_point": np.array(3, dtype)} if m.flip() else {}
    if back:
        return {"input": m.input(shape, dtype), "scale": scale, **zero}
    return {"input": m.input(shape), "scale": scale, "output_dtype": dtype, **zero}


def _dequantized(m: Maker) -> dict[str, Any]:
    shape = m.shape(2, 4)
    return {"quantized_data": m.numbers.integers(-128, 128, shape, np.int8), "zero_point": np.array(5, np.int8),
            "scale": np.array(0.01, np.float16), "axis": 0}


TABLE: Mapping[str, Operands] = {
    **random_moves.TABLE,
    **dict.fromkeys(ANY, _x()), **dict.fromkeys(ARITHMETIC, _arithmetic), **dict.fromkeys(COMPARISONS, _exact_pair),
    **{name: lambda m, b=bounds: {"x": m.within(*b)} for name, bounds in BOUND.items()},
    **dict.fromkeys(("real_div",), _positive_pair), **dict.fromkeys(REDUCTIONS, _reduction),
    **dict.fromkeys(("logical_and", "logical_or", "logical_xor"), _logical),
    **dict.fromkeys(("reduce_argmax", "reduce_argmin"), _arguments), "reduce_log_sum": _positive_reduction,
    "reduce_prod": lambda m: _positive_reduction(m, 1.1, 0.9),
    "logical_not": lambda m: {"x": m.condition()}, "select": _select,
    "cast": lambda m: {
        "x": m.input(m.shape()), "dtype": m.draw.choice(("int32", "bool", "int8", "uint8", "fp16"))},
    "leaky_relu": _x(alpha=0.25), "elu": _x(alpha=1.5), "clip": _x(alpha=-0.5, beta=1.0),
    "scaled_tanh": _x(alpha=1.5, beta=0.5), "sigmoid_hard": _x(alpha=0.25, beta=0.5), "threshold": _x(alpha=0.3),
    "thresholded_relu": lambda m: {"x": m.input(m.shape()), "alpha": 0.3}, "clamped_relu": _x(alpha=0.25, beta=1.0),
    "linear_activation": _x(alpha=1.5, beta=0.5),
    "gelu": lambda m: {
        "x": m.real(), "mode": m.draw.choice(("EXACT", "TANH_APPROXIMATION", "SIGMOID_APPROXIMATION"))},
    "prelu": lambda m: (lambda x: {"x": x, "alpha": m.constant((x.shape[1],))})(m.real(3, 5)),
    "softplus_parametric": lambda m: (lambda x: {"x": x, "alpha": np.abs(m.constant((x.shape[1],))) + np.float16(0.5),
                                                 "beta": m.constant((x.shape[1],))})(m.real(3, 5)),
    "pow": lambda m: {"x": m.within(3.0, 0.5), "y": np.float16(m.draw.choice((2, 0.5, 3)))}, "conv": _conv,
    "conv_transpose": _conv_transpose, "batch_norm": _norm, "layer_norm": _layer_norm,
    "instance_norm": lambda m: {"x": m.real(3, 4), "epsilon": 0.01},
    "rms_norm": lambda m: {key: value for key, value in _layer_norm(m).items() if key in ("x", "axes", "epsilon")},
    "l2_norm": lambda m: {"x": m.real(3, 5), "epsilon": 0.01},
    "local_response_norm": lambda m: {"x": m.real(3, 4), "size": 3}, "max_pool": lambda m: _pool(m),
    "avg_pool": lambda m: _pool(m, exclude_padding_from_average=m.flip()), "l2_pool": lambda m: _pool(m, 4),
    "matmul": _matmul, "linear": _linear, "einsum": _einsum, "scaled_dot_product_attention": _attention,
    "softmax": _along(), "cumsum": _along(), "argsort": _ported(_along(1, 4)),
    "topk": lambda m: (lambda f: {**f, "k": m.draw.randint(
        1, f["x"].shape[f["axis"]])})(dict(_ported(_along(1, 4))(m))),
    "one_hot": lambda m: {"indices": m.whole(1, 2), "one_hot_vector_size": 6},
    "fill_like": lambda m: {"ref_tensor": m.real(), "value": 1.5}, "lstm": lambda m: _recurrent(m, 4, True),
    "gru": lambda m: _recurrent(m, 3, False), "rnn": lambda m: _recurrent(m, 1, False), "floor_div": _divided,
    "mod": _divided, "quantize": _quantize, "dequantize": lambda m: _quantize(m, True),
    "fill": lambda m: {"shape": list(m.shape()), "value": np.float16(1.5)}, "shape": lambda m: {"x": m.real()},
    "range_1d": lambda m: {"start": np.float16(1), "end": np.float16(4), "step": np.float16(0.5)},
    "non_zero": lambda m: {"x": np.array([0, 1, 1, 0], np.float16)}, "constexpr_affine_dequantize": _dequantized,
    "constexpr_cast": lambda m: {"source_val": m.numbers.standard_normal(m.shape(2, 4)).astype(np.float16),
                                 "output_dtype": "fp32"},
}
"""Operands by operation."""
HOST_ALONE = ("bitwise_and", "bitwise_or", "bitwise_xor", "non_maximum_suppression", "roi_align", "shift_left",
              "shift_right")
"""Operations the engine cannot compute: bits, boxes and regions."""
ELSEWHERE = tuple(sorted((*HOST_ALONE, "constexpr_blockwise_shift_scale", "constexpr_lut_to_dense",
                          "constexpr_lut_to_sparse", "constexpr_sparse_blockwise_shift_scale",
                          "constexpr_sparse_to_dense", "lut_activation", "nearest_steps", "whole_norm",
                          "whole_spread")))
"""Operations that are left out: compressed weights, fitted tables, steps and norms of steps have tests of their own;
bits, boxes and regions are the host's."""
