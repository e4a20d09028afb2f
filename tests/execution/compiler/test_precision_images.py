"""precision="safe" on random graphs of images whose numbers are anywhere between 1e-7 and 1e9: convolutions, pools,
gates, attention, norms and functions written out."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from support.tied_graphs import TiedGraph, costs_no_digits

from openane.graph import Graph, Value

CHANNELS, SIZE = 16, 8
SHAPE = (1, CHANNELS, SIZE, SIZE)
ACROSS, WITHIN = [1], [2, 3]
"""Dimensions of channels, and of pixels."""
WINDOW = {"kernel_sizes": [3, 3], "strides": [1, 1], "pad_type": "same"}
HALF = {"kernel_sizes": [2, 2], "strides": [2, 2], "pad_type": "valid"}
DOUBLE = {"scale_factor_height": 2.0, "scale_factor_width": 2.0}


class RandomImage(TiedGraph):
    """A graph of images."""

    def __init__(self, seed: int, beyond: bool) -> None:
        super().__init__(seed, beyond, SHAPE)

    def made(self) -> Graph:
        """The graph."""
        kinds: dict[str, Callable[[float], Value]] = {
            "layer": self.layer, "depthwise": self.depthwise, "wide": self.wide, "average": self.average,
            "max": lambda t: self.tied("max_pool", **WINDOW), "relu": lambda t: self.tied("relu"),
            "leaky": lambda t: self.tied("leaky_relu", alpha=0.1), "residual": lambda t: self.both("add"),
            "difference": lambda t: self.both("sub"), "minimum": lambda t: self.both("minimum"), "concat": self.joined,
            "gate": self.gate, "halves": lambda t: self.halves(), "instance norm": self.instance_norm,
            "group norm": self.group_norm, "written norm": self.written_norm, "written rms": self.written_rms,
            "unit": self.unit, "energy": self.energy, "mean size": self.mean_size, "cosine": self.cosine,
            "softmax": lambda t: self.plain("softmax", axis=1), "softplus": lambda t: self.plain("softplus"),
            "written silu": self.written_silu, "written gelu": self.written_gelu, "logsumexp": self.log_shares,
            "clip": lambda t: self.clip(), "resized": self.resized, "centred": lambda t: self.centred(),
            "deviation": self.deviation, "attention": self.attention, "quotient": self.quotient}
        for _ in range(self.rng.integers(4, 10)):
            name = str(self.rng.choice(list(kinds)))
            self.value = kinds[name](float(self.exponent()))
        return self.builder.finish({"y": self.to(self.mixed(self.to(self.value, 0), 0), 0)})

    def here(self) -> float:
        return self.of[id(self.value)]

    def over(self, name: str, exponent: float, x: Value, axes: list[int]) -> Value:
        """A reduction."""
        return self.add(name, exponent, x=x, axes=axes, keep_dims=True)

    def mixed(self, value: Value, exponent: float) -> Value:
        """A convolution of single pixels, as far towards the exponent as its weights hold."""
        inputs = value.shape[1]
        return self.weighted("conv", value, exponent, (CHANNELS, inputs, 1, 1), inputs)

    def drawn(self, exponent: float) -> Value:
        """Another tensor of the value, at the exponent."""
        return self.to(self.mixed(self.value, exponent), exponent)

    def tied(self, name: str, **settings: float | str | list[int]) -> Value:
        return self.add(name, self.here(), x=self.value, **settings)

    def plain(self, name: str, **settings: int) -> Value:
        return self.add(name, 0, x=self.drawn(0), **settings)

    def both(self, name: str) -> Value:
        return self.add(name, self.here(), x=self.value, y=self.drawn(self.here()))

    def layer(self, exponent: float) -> Value:
        shape = (CHANNELS, CHANNELS, 3, 3)
        return self.to(self.weighted("conv", self.value, exponent, shape, 9 * CHANNELS, pad_type="same"), exponent)

    def depthwise(self, exponent: float) -> Value:
        made = self.weighted("conv", self.value, exponent, (CHANNELS, 1, 3, 3), 9, pad_type="same", groups=CHANNELS)
        return self.to(made, exponent)

    def wide(self, exponent: float) -> Value:
        made = self.weighted("conv_transpose", self.value, exponent, (CHANNELS, CHANNELS, 2, 2), CHANNELS,
                             strides=[2, 2])
        return self.add("max_pool", self.of[id(made)], x=made, **HALF)

    def average(self, exponent: float) -> Value:
        return self.tied("avg_pool", **WINDOW, exclude_padding_from_average=bool(self.seed & 2))

    def joined(self, exponent: float) -> Value:
        other = self.to(self.mixed(self.value, exponent), self.here())
        both = self.add("concat", self.here(), values=(self.value, other), axis=1)
        return self.mixed(both, self.here())

    def gate(self, exponent: float) -> Value:
        mean = self.over("reduce_mean", self.here(), self.value, WITHIN)
        share = self.add("sigmoid", 0, x=self.to(self.mixed(self.to(mean, 0), 0), 0))
        return self.add("mul", self.here(), x=self.value, y=share)

    def halves(self) -> Value:
        halves = self.builder.add("split", x=self.value, num_splits=2, axis=1)
        assert isinstance(halves, tuple)
        self.of |= {id(half): self.here() for half in halves}
        share = self.add("sigmoid", 0, x=self.to(halves[1], 0))
        gated = self.add("mul", self.here(), x=halves[0], y=share)
        return self.add("concat", self.here(), values=(gated, halves[0]), axis=1)

    def bounded(self, exponent: float) -> float:
        """An exponent at which the epsilon of a norm is a number of fp16."""
        return float(np.clip(exponent, 0, 14))

    def instance_norm(self, exponent: float) -> Value:
        x = self.to(self.value, self.bounded(exponent))
        return self.add("instance_norm", 0, x=x, epsilon=1e-5 * 4.0 ** self.of[id(x)])

    def group_norm(self, exponent: float) -> Value:
        x = self.to(self.value, self.bounded(exponent))
        exponent = self.of[id(x)]
        groups = self.add("reshape", exponent, x=x, shape=[1, 4, CHANNELS // 4 * SIZE * SIZE])
        normal = self.add("layer_norm", 0, x=groups, axes=[2], epsilon=1e-5 * 4.0 ** exponent)
        return self.add("reshape", 0, x=normal, shape=list(SHAPE))

    def squares(self, x: Value, form: int) -> Value:
        """The mean square over channels, in one of three ways."""
        exponent = 2 * self.of[id(x)]
        if form == 0:
            return self.over("reduce_mean", exponent, self.add("square", exponent, x=x), ACROSS)
        if form == 1:
            total = self.over("reduce_sum", exponent, self.add("mul", exponent, x=x, y=x), ACROSS)
            return self.add("mul", exponent, x=total, y=1 / CHANNELS)
        return self.over("reduce_mean", exponent, self.add("pow", exponent, x=x, y=2.0), ACROSS)

    def written_norm(self, exponent: float) -> Value:
        x = self.drawn(self.bounded(exponent))
        exponent, form = self.of[id(x)], int(self.rng.integers(3))
        less = self.add("sub", exponent, x=x, y=self.over("reduce_mean", exponent, x, ACROSS))
        spread = self.add("add", 2 * exponent, x=self.squares(less, form), y=1e-5 * 4.0 ** exponent)
        if form == 1:
            return self.add("mul", 0, x=less, y=self.add("rsqrt", -exponent, x=spread, epsilon=0.0))
        return self.add("real_div", 0, x=less, y=self.add("sqrt", exponent, x=spread))

    def written_rms(self, exponent: float) -> Value:
        x = self.drawn(self.bounded(exponent))
        exponent = self.of[id(x)]
        spread = self.add("add", 2 * exponent, x=self.squares(x, int(self.rng.integers(3))), y=1e-5 * 4.0 ** exponent)
        return self.add("mul", 0, x=x, y=self.add("rsqrt", -exponent, x=spread, epsilon=0.0))

    def unit(self, exponent: float) -> Value:
        x = self.drawn(exponent)
        return self.add("real_div", 0, x=x, y=self.over("reduce_l2_norm", exponent, x, ACROSS))

    def energy(self, exponent: float) -> Value:
        """Divided by the root of the sum of squares, taken back to where they began, and a constant."""
        x = self.drawn(exponent)
        total = self.to(self.over("reduce_sum_square", 2 * exponent, x, ACROSS), 0)
        return self.add("mul", exponent, x=x, y=self.add("rsqrt", 0, x=total, epsilon=0.01))

    def mean_size(self, exponent: float) -> Value:
        x = self.drawn(exponent)
        mean = self.over("reduce_mean", exponent, self.add("abs", exponent, x=x), ACROSS)
        return self.add("mul", self.here() - exponent, x=self.value, y=self.add("inverse", -exponent, x=mean,
                                                                              epsilon=0.0))

    def cosine(self, exponent: float) -> Value:
        x, y = self.drawn(exponent), self.drawn(-exponent)
        product = self.over("reduce_sum", 0, self.add("mul", 0, x=x, y=y), ACROSS)
        lengths = [self.over("reduce_l2_norm", self.of[id(value)], value, ACROSS) for value in (x, y)]
        angle = self.add("real_div", 0, x=product, y=self.add("mul", 0, x=lengths[0], y=lengths[1]))
        return self.add("mul", self.here(), x=self.value, y=angle)

    def written_silu(self, exponent: float) -> Value:
        x = self.drawn(0)
        return self.add("mul", 0, x=x, y=self.add("sigmoid", 0, x=x))

    def written_gelu(self, exponent: float) -> Value:
        x = self.drawn(0)
        share = self.add("add", 0, x=self.add("erf", 0, x=self.add("mul", 0, x=x, y=0.5 ** 0.5)), y=1.0)
        return self.add("mul", 0, x=self.add("mul", 0, x=x, y=0.5), y=share)

    def log_shares(self, exponent: float) -> Value:
        x = self.drawn(0)
        return self.add("sub", 0, x=x, y=self.over("reduce_log_sum_exp", 0, x, ACROSS))

    def clip(self) -> Value:
        x = self.to(self.value, float(np.clip(self.here(), -10, 14)))
        unit = 2.0 ** self.of[id(x)]
        return self.add("clip", self.of[id(x)], x=x, alpha=-0.5 * unit, beta=1.5 * unit)

    def resized(self, exponent: float) -> Value:
        name = str(self.rng.choice(["upsample_nearest_neighbor", "upsample_bilinear"]))
        large = self.tied(name, **DOUBLE)
        return self.add("avg_pool", self.here(), x=large, **HALF)

    def centred(self) -> Value:
        mean = self.over("reduce_mean", self.here(), self.value, ACROSS)
        return self.add("sub", self.here(), x=self.value, y=mean)

    def deviation(self, exponent: float) -> Value:
        x = self.drawn(exponent)
        less = self.add("sub", exponent, x=x, y=self.over("reduce_mean", exponent, x, WITHIN))
        spread = self.over("reduce_mean", 2 * exponent, self.add("square", 2 * exponent, x=less), WITHIN)
        return self.add("add", exponent, x=x, y=self.add("sqrt", exponent, x=spread))

    def attention(self, exponent: float) -> Value:
        query, key, value = (self.add("reshape", of, x=self.drawn(of), shape=[1, CHANNELS, SIZE * SIZE])
                             for of in (exponent, -exponent, exponent))
        scores = self.add("matmul", 0, x=query, y=key, transpose_x=True)
        shares = self.add("softmax", 0, x=self.add("mul", 0, x=scores, y=CHANNELS ** -0.5), axis=-1)
        made = self.add("matmul", exponent, x=value, y=shares, transpose_y=True)
        return self.add("reshape", exponent, x=made, shape=list(SHAPE))

    def quotient(self, exponent: float) -> Value:
        size = self.add("abs", self.here(), x=self.drawn(self.here()))
        largest = self.over("reduce_max", self.here(), size, ACROSS)
        return self.add("real_div", 0, x=self.value, y=self.add("add", self.here(), x=size, y=largest))


@pytest.mark.parametrize("seed", [*range(24), 267, 287, 432, 902])
def test_images_beyond_the_range_cost_no_digits(seed: int) -> None:
    x = np.random.default_rng(seed).standard_normal(SHAPE).astype(np.float16)
    assert costs_no_digits(RandomImage(seed, True).made(), RandomImage(seed, False).made(), x)
