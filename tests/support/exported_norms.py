"""Normalisations as exporters write them: what they wrote, in the text form of ONNX, beside what it means.

Each was exported with the versions its name says, and copied here node by node under shorter names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper, parser

EXTENTS = {"rows": (2, 8, 32), "first": (2, 16, 6, 6), "last": (2, 6, 6, 16)}
"""Shapes: rows of numbers, and images with channels first and last."""


@dataclass(frozen=True)
class Exported:
    """gamma * norm(x) + beta over `axes` of x seen as `view`; gamma and beta (or neither) are spread over `along`, and
    vectors in the file with `flat`. `total`: by the sum of squares; `bessel`: the variance divides by one less."""

    name: str
    layout: str
    axes: tuple[int, ...]
    text: str
    centred: bool = True
    epsilon: float = 1e-5
    along: tuple[int, ...] = ()
    view: tuple[int, ...] = ()
    total: bool = False
    bessel: bool = False
    shifted: bool = True
    flat: bool = False
    opset: int = 17
    constants: Mapping[str, Any] = field(default_factory=dict)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of x."""
        return EXTENTS[self.layout]

    @property
    def vectors(self) -> dict[str, np.ndarray]:
        """gamma and beta, numbers that fp16 holds."""
        names = ("gamma", "beta") if self.shifted else ("gamma",)
        rng = np.random.default_rng(7)
        return {name: rng.uniform(0.5, 1.5, self.along).astype(np.float16).astype(np.float32)
                for name in names if self.along}

    def model(self) -> onnx.ModelProto:
        """What was exported."""
        shape = ",".join(map(str, self.shape))
        graph = parser.parse_graph(f"norm (float[{shape}] x) => (float[{shape}] y) {{ {self.text} }}")
        vectors = {name: array.reshape(-1) if self.flat else array for name, array in self.vectors.items()}
        given = {name: np.asarray(data, np.int64 if np.asarray(data).dtype.kind == "i" else np.float32)
                 for name, data in {**self.constants, **vectors}.items()}
        graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in given.items())
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)

    def wanted(self, x: np.ndarray) -> np.ndarray:
        """What it means, in float64."""
        wide = x.astype(np.float64).reshape(self.view or self.shape)
        over = {"axis": self.axes, "keepdims": True}
        if self.centred:
            wide = wide - wide.mean(**over)
        count = np.prod([wide.shape[axis] for axis in self.axes])
        square = np.square(wide).sum(**over) / (1 if self.total else count - 1 if self.bessel else count)
        vectors = self.vectors
        result = (wide / np.sqrt(square + self.epsilon)).reshape(self.shape if len(self.along) != 5 else wide.shape)
        return (result * vectors.get("gamma", 1) + vectors.get("beta", 0)).reshape(self.shape)


def _root(spread: str, epsilon: str = "eps") -> str:
    """Add, Sqrt, Reciprocal: what tf2onnx and PyTorch's newer exporter make of rsqrt."""
    return f"a = Add({spread}, {epsilon}) s = Sqrt(a) r = Reciprocal(s)"


def _ones(root: str) -> str:
    """What PyTorch's older exporter makes of rsqrt."""
    return f"s = Sqrt({root}) one = Constant<value = float {{1.0}}>() r = Div(one, s)"


def _squared(exponent: str = "c") -> str:
    return "two = Constant<value = float {2.0}>() " + f"q = Pow({exponent}, two)"


def _keras(mean: str, gain: str = "n = Neg(m) k = Mul(n, g)", x: str = "x", y: str = "y") -> str:
    """Keras: moments, then x * g + (beta - mean * g)."""
    return (f"m = {mean}({x}) d = Sub({x}, m) q = Mul(d, d) v = {mean}(q) {_root('v')} g = Mul(r, gamma) "
            f"p = Mul({x}, g) {gain} b = Add(k, beta) {y} = Add(p, b)")


TORCH_OLD = """
    m = ReduceMean<axes = [-1]>(x) c = Sub(x, m) {square} v = ReduceMean<axes = [-1]>(q)
    a = Add(v, eps) s = Sqrt(a) n = Div(c, s) g = Mul(n, gamma) y = Add(g, beta)"""
RMS_OLD = "{square} v = ReduceMean<axes = [-1], keepdims = 1>(q) a = Add(v, eps) {root} n = Mul(x, r) y = Mul(gamma, n)"
FLAX = """
    m = ReduceMean<axes = {axes}, keepdims = 1>({x}) c = Sub({x}, m) q = Mul({x}, {x})
    w = ReduceMean<axes = {axes}, keepdims = 1>(q) p = Mul(m, m) v = Sub(w, p) zero = Constant<value = float {{0.0}}>()
    k = Max(v, zero) a = Add(k, eps) s = Sqrt(a) n = Div(c, s)"""
POOLED, AXIS1 = "GlobalAveragePool", "ReduceMean<axes = [1], keepdims = 1>"
GROUPED, IMAGE = (2, 6, 6, 4, 4), "ReduceMean<axes = [1, 2, 4], keepdims = 1>"
GROUP = {"groups": [-1, 6, 6, 4, 4], "whole": [2, 6, 6, 16]}


def _with(epsilon: float, **more: Any) -> dict[str, Any]:
    return {"eps": epsilon, **more}


LAYER: Sequence[Exported] = (
    Exported("keras 3.15 LayerNormalization, tf2onnx 1.17", "rows", (2,), _keras(POOLED), epsilon=1e-3,
             along=(1, 1, 32), constants=_with(1e-3)),
    Exported("keras 3.15 LayerNormalization over two axes, tf2onnx 1.17", "rows", (1, 2),
             _keras("ReduceMean<axes = [1, 2], keepdims = 1>"), epsilon=1e-3, along=(1, 8, 32), constants=_with(1e-3)),
    Exported("keras 3.15 LayerNormalization over the channels, tf2onnx 1.17", "first", (1,), _keras(AXIS1),
             epsilon=1e-3, along=(1, 16, 1, 1), constants=_with(1e-3)),
    Exported("torch 2.13 LayerNorm, TorchScript, opset 11", "rows", (2,), TORCH_OLD.format(square=_squared()),
             along=(32,), opset=11, constants=_with(1e-5)),
    Exported("torch 2.13 ConvNeXt's norm of channels, TorchScript", "first", (1,), f"""
             m = {AXIS1}(x) c = Sub(x, m) {_squared()} v = {AXIS1}(q) a = Add(v, eps) s = Sqrt(a) n = Div(c, s)
             g = Mul(gamma, n) y = Add(g, beta)""", along=(16, 1, 1), epsilon=1e-6, constants=_with(1e-6)),
    Exported("torchvision 0.28 LayerNorm2d, TorchScript, opset 11", "first", (1,),
             "t = Transpose<perm = [0, 2, 3, 1]>(x)" + TORCH_OLD.format(square=_squared()).replace("(x", "(t").replace(
                 "y = Add", "o = Add") + " y = Transpose<perm = [0, 3, 1, 2]>(o)", along=(16, 1, 1), flat=True,
             opset=11,             constants=_with(1e-5)),
    Exported("torch 2.13 var_mean and rsqrt, TorchScript", "rows", (2,), f"""
             m = ReduceMean<axes = [-1], keepdims = 1>(x) k = ReduceMean<axes = [-1], keepdims = 1>(x) d = Sub(x, k)
             q = Mul(d, d) v = ReduceMean<axes = [-1], keepdims = 1>(q) c = Sub(x, m) a = Add(v, eps) {_ones("a")}
             y = Mul(c, r)""", constants=_with(1e-5)),
    Exported("torch 2.13 var_mean and rsqrt, torch.export", "rows", (2,), f"""
             k = ReduceMean<keepdims = 1>(x, axes) d = Sub(x, k) q = Mul(d, d) w = ReduceMean<keepdims = 0>(q, axes)
             v = Reshape(w, kept) t = ReduceSum<keepdims = 0>(x, axes) u = Reshape(t, kept) m = Div(u, count)
             c = Sub(x, m) {_root("v")} y = Mul(c, r)""", opset=18,
             constants=_with(1e-5, axes=[2], kept=[2, 8, 1], count=32.0)),
    Exported("torch 2.13 mean of squares less squared mean, torch.export", "rows", (2,), f"""
             m = ReduceMean<keepdims = 1>(x, axes) q = Mul(x, x) w = ReduceMean<keepdims = 1>(q, axes) p = Mul(m, m)
             d = Sub(w, p) c = Sub(x, m) v = Max(d, zero) {_root("v")} y = Mul(c, r)""", opset=18,
             constants=_with(1e-5, axes=[-1], zero=0.0)),
    Exported("torch 2.13 standardised by all elements, std with n - 1, TorchScript", "first", (0, 1, 2, 3), """
             m = ReduceMean<keepdims = 0>(x) c = Sub(x, m) k = ReduceMean<keepdims = 0>(x) d = Sub(x, k) q = Mul(d, d)
             w = ReduceMean<keepdims = 0>(q) t = Mul(w, count) v = Div(t, less) s = Sqrt(v) y = Div(c, s)""",
             epsilon=0.0, bessel=True, constants={"count": 1152.0, "less": 1151.0}),
    Exported("flax 0.12 LayerNorm, jax2onnx 0.17", "rows", (2,), FLAX.format(axes="[2]", x="x") +
             " g = Mul(n, gamma) y = Add(g, beta)", along=(32,), epsilon=1e-6, constants=_with(1e-6)),
    Exported("jax 0.10 standardize, jax2onnx 0.17", "rows", (2,), """
             t = ReduceSum<keepdims = 0>(x, axes) u = Reshape(t, kept) e = Expand(u, kept) m = Div(e, count)
             z = ReduceSumSquare<axes = [2], keepdims = 0>(x) f = Reshape(z, kept) w = Div(f, count) p = Mul(m, m)
             d = Sub(w, p) v = Max(zero, d) c = Sub(x, m) a = Add(v, eps) s = Sqrt(a) r = Div(one, s) y = Mul(c, r)""",
             constants=_with(1e-5, axes=[2], kept=[2, 8, 1], count=32.0, zero=0.0, one=1.0)),
    Exported("tensorflow 2.21 sufficient_statistics, tf2onnx 1.17", "rows", (2,), """
             q = Mul(x, x) z = ReduceSum<keepdims = 1>(q, axes) w = Mul(z, share) t = ReduceSum<keepdims = 1>(x, axes)
             m = Mul(t, share) p = Mul(m, m) d = Sub(eps, p) a = Add(w, d) s = Sqrt(a) r = Reciprocal(s) k = Mul(x, r)
             n = Neg(m) b = Mul(n, r) y = Add(k, b)""", epsilon=1e-3,
             constants=_with(1e-3, axes=[-1], share=0.03125)),
)
GROUP_AND_INSTANCE: Sequence[Exported] = (
    Exported("keras 3.15 GroupNormalization, tf2onnx 1.17", "last", (1, 2, 4), "z = Reshape(x, groups) " +
             _keras(IMAGE, "n = Neg(m) k = Mul(n, g)", "z", "o") + " y = Reshape(o, whole)", epsilon=1e-3,
             along=(1, 1, 1, 4, 4), view=GROUPED, constants=_with(1e-3, **GROUP)),
    Exported("tensorflow 2.21 group norm of moments, tf2onnx 1.17", "last", (1, 2, 4), f"""
             z = Reshape(x, groups) m = {IMAGE}(z) d = Sub(z, m) q = Mul(d, d) v = {IMAGE}(q) a = Add(v, eps)
             s = Sqrt(a) n = Div(d, s) o = Reshape(n, whole) g = Mul(o, gamma) y = Add(g, beta)""", along=(16,),
             view=GROUPED, constants=_with(1e-5, **GROUP)),
    Exported("torch 2.13 group norm of a view, torch.export", "first", (2,), """
             z = Reshape(x, groups) m = ReduceMean<keepdims = 1>(z, last) k = ReduceMean<keepdims = 1>(z, two)
             d = Sub(z, k) q = Mul(d, d) w = ReduceMean<keepdims = 0>(q, two) v = Reshape(w, kept) c = Sub(z, m)
             a = Add(v, eps) s = Sqrt(a) n = Div(c, s) y = Reshape(n, whole)""", view=(2, 4, 144), opset=18,
             constants=_with(1e-5, groups=[2, 4, -1], last=[-1], two=[2], kept=[2, 4, 1], whole=[2, 16, 6, 6])),
    Exported("flax 0.12 GroupNorm, jax2onnx 0.17", "last", (1, 2, 4), "z = Reshape(x, groups) " +
             FLAX.format(axes="[1, 2, 4]", x="z") + " o = Reshape(n, whole) g = Mul(o, gamma) y = Add(g, beta)",
             along=(16,), view=GROUPED, epsilon=1e-6, constants=_with(1e-6, **GROUP)),
    Exported("tensorflow 2.21 instance norm of moments, tf2onnx 1.17", "last", (1, 2), f"""
             m = ReduceMean<axes = [1, 2], keepdims = 1>(x) d = Sub(x, m) q = Mul(d, d)
             v = ReduceMean<axes = [1, 2], keepdims = 1>(q) {_root("v")} g = Mul(r, gamma) k = Mul(m, g) p = Mul(x, g)
             b = Sub(beta, k) y = Add(p, b)""", epsilon=1e-3, along=(16,), constants=_with(1e-3)),
    Exported("torch 2.13 adaptive instance norm, var with n - 1, torch.export", "first", (2, 3), """
             z = Reshape(x, flat) k = ReduceMean<keepdims = 1>(z, two) d = Sub(z, k) q = Mul(d, d)
             w = ReduceMean<keepdims = 0>(q, two) t = Mul(w, count) v = Div(t, less) a = Add(v, eps) s = Sqrt(a)
             u = Reshape(s, kept) h = ReduceMean<keepdims = 0>(z, two) m = Reshape(h, kept) e = Expand(m, whole)
             c = Sub(x, e) f = Expand(u, whole) y = Div(c, f)""", bessel=True, opset=18,
             constants=_with(1e-5, flat=[2, 16, -1], two=[2], count=36.0, less=35.0, kept=[2, 16, 1, 1],
                             whole=[2, 16, 6, 6])),
    Exported("keras 3.15 BatchNormalization that trains, tf2onnx 1.17", "last", (0, 1, 2), f"""
             m = ReduceMean<axes = [0, 1, 2], keepdims = 1>(x) d = Sub(x, m) q = Mul(d, d)
             w = ReduceMean<axes = [0, 1, 2], keepdims = 1>(q) v = Squeeze(w, three) {_root("v")} g = Mul(r, gamma)
             p = Mul(x, g) u = Squeeze(m, three) k = Mul(u, g) b = Sub(beta, k) y = Add(p, b)""", epsilon=1e-3,
             along=(16,), constants=_with(1e-3, three=[0, 1, 2])),
    Exported("torch 2.13 BatchNorm2d that trains, TorchScript", "first", (0, 2, 3), """
             z = Reshape(x, flat) t = Transpose<perm = [0, 2, 1]>(z) u = ReduceMean<axes = [0, 1], keepdims = 0>(t)
             m = ReduceMean<axes = [0, 1], keepdims = 1>(t) d = Sub(t, m) q = Mul(d, d)
             v = ReduceMean<axes = [0, 1], keepdims = 0>(q)
             y, h, k = BatchNormalization<epsilon = 1e-5, training_mode = 1>(x, gain, offset, u, v)""",
             constants={"flat": [2, 16, -1], "gain": np.ones(16), "offset": np.zeros(16)}),
)
ROOT_MEAN_SQUARE: Sequence[Exported] = (
    Exported("transformers 5.23 LlamaRMSNorm, torch 2.13, TorchScript", "rows", (2,), "f = Cast<to = 1>(x) " +
             RMS_OLD.format(square=_squared("f"), root=_ones("a")).replace("Mul(x, r)", "Mul(f, r) o = Cast<to = 1>(n)")
             .replace("Mul(gamma, n)", "Mul(gamma, o)"), False, 1e-6, (32,), shifted=False, constants=_with(1e-6)),
    Exported("transformers 5.23 T5LayerNorm, torch 2.13, TorchScript, opset 11", "rows", (2,), "f = Cast<to = 1>(x) " +
             RMS_OLD.format(square=_squared("f"), root=_ones("a")).replace("Mul(x, r)", "Mul(f, r)"), False, 1e-6,
             (32,), shifted=False, opset=11, constants=_with(1e-6)),
    Exported("transformers 5.23 GemmaRMSNorm, torch 2.13, torch.export", "rows", (2,), f"""
             q = Pow(x, two) v = ReduceMean<keepdims = 1>(q, axes) {_root("v")} n = Mul(x, r) y = Mul(n, gamma)""",
             False, 1e-6, (32,), shifted=False, opset=18, constants=_with(1e-6, two=2.0, axes=[-1])),
    Exported("timm 1.0 RmsNorm2d, torch 2.13, TorchScript", "first", (1,), f"""
             {_squared("x")} v = {AXIS1}(q) a = Add(v, eps) {_ones("a")} n = Mul(x, r) y = Mul(n, gamma)""", False,
             1e-6, (1, 16, 1, 1), shifted=False, constants=_with(1e-6)),
    Exported("timm 1.0 FilterResponseNorm, torch 2.13, torch.export", "first", (2, 3), f"""
             q = Pow(x, two) v = ReduceMean<keepdims = 1>(q, axes) {_root("v")} e = Expand(r, whole) n = Mul(x, e)
             g = Mul(n, gamma) y = Add(g, beta)""", False, 1e-5, (1, 16, 1, 1), opset=18,
             constants=_with(1e-5, two=2.0, axes=[2, 3], whole=[2, 16, 6, 6])),
    Exported("keras 3.15 RMSNormalization, tf2onnx 1.17", "rows", (2,), f"""
             q = Mul(x, x) v = {POOLED}(q) {_root("v")} g = Mul(r, gamma) y = Mul(x, g)""", False, 1e-6, (32,),
             shifted=False, constants=_with(1e-6)),
    Exported("flax 0.12 RMSNorm, jax2onnx 0.17", "rows", (2,), """
             e = CastLike(eps, x) q = Mul(x, x) v = ReduceMean<axes = [2], keepdims = 1>(q) a = Add(v, e) s = Sqrt(a)
             n = Div(x, s) y = Mul(n, gamma)""", False, 1e-6, (32,), shifted=False, constants=_with(1e-6)),
    Exported("torch 2.13 functional.normalize, torch.export", "rows", (2,), """
             s = ReduceL2<keepdims = 1>(x, axes) k = Clip(s, eps) e = Expand(k, whole) y = Div(x, e)""", False, 0.0,
             total=True, opset=18, constants=_with(1e-12, axes=[-1], whole=[2, 8, 32])),
    Exported("tensorflow 2.21 l2_normalize, tf2onnx 1.17", "rows", (2,), """
             q = Mul(x, x) v = ReduceSum<keepdims = 1>(q, axes) k = Max(v, eps) s = Sqrt(k) r = Reciprocal(s)
             y = Mul(x, r)""", False, 0.0, total=True, constants=_with(1e-12, axes=[-1])),
    Exported("keras 3.15 UnitNormalization, tf2onnx 1.17", "rows", (2,), """
             q = Mul(x, x) v = ReduceSum<keepdims = 1>(q, axes) s = Sqrt(v) r = Reciprocal(s) k = Min(r, most)
             y = Mul(x, k)""", False, 0.0, total=True, constants={"axes": [-1], "most": 1e12}),
)
EXPORTED: Sequence[Exported] = (*LAYER, *GROUP_AND_INSTANCE, *ROOT_MEAN_SQUARE)
