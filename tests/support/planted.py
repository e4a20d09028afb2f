"""Small networks of many kinds, each with one operation that is made to overflow or to lose its digits.

A structure draws its weights from a seed and says where it can be damaged; a fault multiplies one weight, or puts an
operation in the way. What `ane check` must name is the label of that operation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from openane.graph import Graph, Value
from openane.ops.build import GraphBuilder


@dataclass(frozen=True)
class Planted:
    """A network and the operation, by its name, that is damaged."""

    graph: Graph
    operation: str


class Site:
    """The builder of one network. `weighted` operations are counted, and the one of number `at` has its weights
    multiplied by `factor` (and what it makes divided by it behind something that keeps the compiler from folding
    that)."""

    def __init__(self, seed: int, at: int | None = None, factor: float = 1.0) -> None:
        self.rng = np.random.default_rng(seed)
        self.b = GraphBuilder(f"network{seed}")
        self.at, self.factor, self.count = at, factor, 0
        self.named = ""
        self.expected = ""

    def draw(self, *shape: int, gain: float = 1.0) -> np.ndarray:
        """Weights that keep the size of what they multiply."""
        inner = max(1, int(np.prod(shape[1:])))
        return (self.rng.standard_normal(shape) * gain / np.sqrt(inner)).astype(np.float16)

    def _weight(self, name: str, *shape: int) -> tuple[np.ndarray, bool]:
        weight, hit = self.draw(*shape), self.count == self.at
        self.count += 1
        if hit:
            self.expected = name
            weight = (weight.astype(np.float64) * self.factor).astype(np.float16)
        return weight, hit

    def _back(self, x: Value, name: str, hit: bool) -> Value:
        """Behind a damaged operation: back to its size, out of the compiler's reach."""
        if not hit:
            return x
        bent = self.b.single("leaky_relu", x=x, alpha=0.9, name=f"{name}_bent")
        return self.b.single("mul", x=bent, y=np.float16(1 / self.factor), name=f"{name}_back")

    def linear(self, x: Value, out: int, name: str) -> Value:
        weight, hit = self._weight(name, out, x.shape[-1])
        bias = np.zeros(out, np.float16) if hit else self.draw(out, gain=0.1)
        return self._back(self.b.single("linear", x=x, weight=weight, bias=bias, name=name), name, hit)

    def conv(self, x: Value, out: int, name: str, kernel: int = 3, groups: int = 1, stride: int = 1) -> Value:
        weight, hit = self._weight(name, out, x.shape[1] // groups, kernel, kernel)
        made = self.b.single("conv", x=x, weight=weight, pad_type="same", strides=np.int32([stride, stride]),
                             groups=np.int32(groups), name=name)
        return self._back(made, name, hit)

    def one(self, op: str, x: Value, name: str, **operands: object) -> Value:
        return self.b.single(op, x=x, name=name, **operands)

    def norm(self, x: Value, name: str) -> Value:
        return self.one("layer_norm", x, name, axes=np.int32([-1]), epsilon=np.float16(1e-3))

    def done(self, y: Value) -> Graph:
        return self.b.finish({"y": y})


def mlp(s: Site) -> Graph:
    x = s.b.input("x", "fp16", (4, 32))
    for number, width in enumerate((48, 32, 24)):
        x = s.one("relu", s.linear(x, width, f"layer{number}"), f"relu{number}")
    return s.done(s.linear(x, 10, "head"))


def tanh_mlp(s: Site) -> Graph:
    x = s.b.input("x", "fp16", (4, 32))
    for number in range(2):
        x = s.one("tanh", s.linear(x, 40, f"fc{number}"), f"tanh{number}")
    return s.done(s.one("softmax", s.linear(x, 10, "scores"), "probabilities", axis=-1))


def convolutions(s: Site) -> Graph:
    x = s.b.input("image", "fp16", (1, 4, 12, 12))
    for number, channels in enumerate((16, 24, 16)):
        x = s.one("relu", s.conv(x, channels, f"conv{number}"), f"relu{number}")
    x = s.one("reduce_mean", x, "pooled", axes=np.int32([2, 3]), keep_dims=False)
    return s.done(s.linear(x, 10, "classifier"))


def depthwise(s: Site) -> Graph:
    x = s.one("relu", s.conv(s.b.input("image", "fp16", (1, 8, 12, 12)), 16, "stem"), "stem_relu")
    for number in range(2):
        x = s.one("relu6", s.conv(x, 16, f"depth{number}", groups=16), f"six{number}")
        x = s.conv(x, 16, f"point{number}", kernel=1)
    return s.done(x)


def residual(s: Site) -> Graph:
    x = s.conv(s.b.input("image", "fp16", (1, 8, 10, 10)), 16, "stem")
    for number in range(2):
        y = s.one("relu", s.conv(x, 16, f"block{number}_first"), f"block{number}_relu")
        x = s.b.single("add", x=x, y=s.conv(y, 16, f"block{number}_second"), name=f"block{number}_added")
    return s.done(s.one("relu", x, "out_relu"))


def attention(s: Site) -> Graph:
    x = s.b.input("tokens", "fp16", (12, 32))
    normed = s.norm(x, "norm")
    query, key, value = (s.linear(normed, 32, name) for name in ("query", "key", "value"))
    scores = s.b.single("matmul", x=query, y=key, transpose_y=True, name="scores")
    weights = s.one("softmax", s.b.single("mul", x=scores, y=np.float16(0.18), name="scaled"), "attention", axis=-1)
    mixed = s.b.single("matmul", x=weights, y=value, name="mixed")
    x = s.b.single("add", x=x, y=s.linear(mixed, 32, "projection"), name="attended")
    return s.done(s.norm(x, "final"))


def decoder(s: Site) -> Graph:
    x = s.b.input("hidden", "fp16", (8, 32))
    for number in range(2):
        y = s.norm(x, f"norm{number}")
        gate = s.one("sigmoid", s.linear(y, 48, f"gate{number}"), f"sigmoid{number}")
        up = s.b.single("mul", x=s.linear(y, 48, f"up{number}"), y=gate, name=f"gated{number}")
        x = s.b.single("add", x=x, y=s.linear(up, 32, f"down{number}"), name=f"added{number}")
    return s.done(s.linear(s.norm(x, "last"), 20, "logits"))


def recurrent(s: Site) -> Graph:
    x = s.b.input("frames", "fp16", (3, 24))
    state = s.b.single("tanh", x=s.b.input("start", "fp16", (1, 24)), name="begun")
    for step in range(3):
        frame = s.b.single("slice_by_size", x=x, begin=np.int32([step, 0]), size=np.int32([1, 24]),
                           name=f"frame{step}")
        both = s.b.single("add", x=s.linear(frame, 24, f"input{step}"), y=s.linear(state, 24, f"hidden{step}"),
                          name=f"sum{step}")
        state = s.one("tanh", both, f"state{step}")
    return s.done(s.linear(state, 8, "answer"))


def autoencoder(s: Site) -> Graph:
    x = s.b.input("image", "fp16", (1, 4, 16, 16))
    x = s.one("relu", s.conv(x, 12, "down0", stride=2), "relu0")
    x = s.one("relu", s.conv(x, 16, "down1", stride=2), "relu1")
    x = s.one("upsample_nearest_neighbor", x, "up", scale_factor_height=np.int32(2), scale_factor_width=np.int32(2))
    return s.done(s.one("sigmoid", s.conv(x, 4, "made"), "pixels"))


def excitation(s: Site) -> Graph:
    x = s.one("relu", s.conv(s.b.input("image", "fp16", (1, 8, 10, 10)), 16, "stem"), "stem_relu")
    mean = s.one("reduce_mean", x, "squeezed", axes=np.int32([2, 3]), keep_dims=True)
    gate = s.one("sigmoid", s.conv(s.one("relu", s.conv(mean, 8, "reduce", kernel=1), "reduced"), 16, "expand",
                                   kernel=1), "gate")
    x = s.b.single("mul", x=x, y=gate, name="excited")
    return s.done(s.conv(x, 8, "out"))


def branches(s: Site) -> Graph:
    x = s.b.input("image", "fp16", (1, 8, 10, 10))
    parts = [s.one("relu", s.conv(x, 8, f"branch{kernel}", kernel=kernel), f"relu{kernel}") for kernel in (1, 3, 5)]
    x = s.b.single("concat", values=tuple(parts), axis=np.int32(1), name="joined")
    x = s.one("max_pool", x, "pool", kernel_sizes=np.int32([2, 2]), strides=np.int32([2, 2]), pad_type="valid")
    return s.done(s.conv(x, 12, "after", kernel=1))


def mixer(s: Site) -> Graph:
    x = s.b.input("tokens", "fp16", (16, 24))
    y = s.one("transpose", s.norm(x, "norm0"), "turned", perm=np.int32([1, 0]))
    y = s.linear(s.one("gelu", s.linear(y, 24, "across0"), "gelu0", mode="EXACT"), 16, "across1")
    x = s.b.single("add", x=x, y=s.one("transpose", y, "back", perm=np.int32([1, 0])), name="added0")
    return s.done(s.linear(s.norm(x, "norm1"), 24, "within"))


STRUCTURES: tuple[Callable[[Site], Graph], ...] = (
    mlp, tanh_mlp, convolutions, depthwise, residual, attention, decoder, recurrent, autoencoder, excitation, branches,
    mixer)


def weighted(seed: int) -> Planted:
    """A network with one weight multiplied: so much that sums pass 2^15, or so little that products vanish."""
    structure = STRUCTURES[seed % len(STRUCTURES)]
    plain = Site(seed)
    structure(plain)
    rng = np.random.default_rng(1000 + seed)
    at, factor = int(rng.integers(plain.count)), 2.0 ** 16 if seed // len(STRUCTURES) % 2 else 2.0 ** -13
    site = Site(seed, at, factor)
    graph = structure(site)
    return Planted(graph, site.expected)


def inserted(number: int) -> Planted:
    """A network with an operation between its two layers that overflows or loses digits by itself."""
    s = Site(number)
    x = s.one("relu", s.linear(s.b.input("x", "fp16", (6, 32)), 32, "before"), "positive")
    fault = FAULTS[number % len(FAULTS)]
    y, name = fault(s, x)
    return Planted(s.done(s.linear(y, 16, "after")), name)


def _times(s: Site, x: Value, factor: float, name: str) -> Value:
    return s.b.single("mul", x=x, y=np.float16(factor), name=name)


def _squares(s: Site, x: Value) -> tuple[Value, str]:
    large = _times(s, x, 400.0, "large")
    squared = s.b.single("mul", x=large, y=large, name="squared")
    return _times(s, s.one("sqrt", squared, "rooted"), 1 / 400, "back"), "squared"


def _powers(s: Site, x: Value) -> tuple[Value, str]:
    power = s.one("exp", s.b.single("add", x=x, y=np.float16(11.0), name="raised"), "power")
    return _times(s, power, 1e-5, "lowered"), "power"


def _quotient(s: Site, x: Value) -> tuple[Value, str]:
    tiny = s.b.single("add", x=_times(s, x, 1e-6, "shrunk"), y=np.float16(1e-6), name="tiny")
    return s.one("log", s.one("inverse", tiny, "reciprocal", epsilon=np.float16(0.0)), "logged",
                 epsilon=np.float16(0)), "reciprocal"


def _difference(s: Site, x: Value) -> tuple[Value, str]:
    nearly = s.b.single("mul", x=x, y=(1 + s.rng.standard_normal(32) / 3000).astype(np.float32), name="nearly")
    return _times(s, s.b.single("sub", x=s.one("sqrt", s.one("square", x, "sq"), "x_again"), y=nearly,
                                name="difference"), 1000.0, "grown"), "difference"


def _offset(s: Site, x: Value) -> tuple[Value, str]:
    return s.norm(s.b.single("add", x=_times(s, s.one("tanh", x, "bent"), 0.5, "half"), y=np.float16(3000.0),
                             name="lifted"), "normed"), "lifted"


def _tiny_square(s: Site, x: Value) -> tuple[Value, str]:
    small = _times(s, x, 2.0 ** -11, "small")
    squared = s.b.single("mul", x=small, y=small, name="squared")
    return _times(s, s.one("sqrt", squared, "rooted"), 2.0 ** 11, "back"), "squared"


def _scores(s: Site, x: Value) -> tuple[Value, str]:
    large = _times(s, x, 200.0, "large")
    scores = s.b.single("matmul", x=large, y=large, transpose_y=True, name="scores")
    return s.b.single("matmul", x=s.one("tanh", _times(s, scores, 1 / 40000, "shrunk"), "bent"), y=x,
                      name="mixed"), "scores"


def _few_bits(s: Site, x: Value) -> tuple[Value, str]:
    shrunk = _times(s, x, 2.0 ** -23, "shrunk")
    grown = _times(s, s.one("leaky_relu", shrunk, "bent", alpha=0.5), 2.0 ** 15, "grown")
    return _times(s, grown, 2.0 ** 8, "back"), "shrunk"


def _offset_bent(s: Site, x: Value) -> tuple[Value, str]:
    lifted = s.b.single("add", x=_times(s, s.one("tanh", x, "curved"), 0.5, "half"), y=np.float16(3000.0),
                        name="lifted")
    bent = s.one("leaky_relu", lifted, "bent", alpha=0.5)
    return s.b.single("sub", x=bent, y=np.float16(3000.0), name="back"), "lifted"


FAULTS = (_squares, _powers, _quotient, _offset, _tiny_square, _scores, _difference, _few_bits, _offset_bent)
"""Operations that are damaged by what they are given, and the name of each."""
