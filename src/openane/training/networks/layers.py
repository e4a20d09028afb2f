"""A network as a list of layers, each a text: `conv 16 3x3`, `relu`, `max_pool 2x2`, `flatten`, `linear 64`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod, sqrt
from pathlib import Path

import numpy as np

from openane.errors import AneError, FormatError, GraphError
from openane.graph import Value
from openane.training.networks.network import INPUT, Network, NetworkMaker

FUNCTIONS = ("relu", "sigmoid", "tanh", "gelu", "silu")
POOLS = ("max_pool", "avg_pool")
LARGEST = 1 << 16


@dataclass(frozen=True)
class TrainedLayers:
    """Weights are drawn after He et al. (2015), biases are zeros. The last layer gives one score per class."""

    layers: tuple[str, ...]

    def build(self, inputs: tuple[int, ...], classes: int, rng: np.random.Generator, base: Path) -> Network:
        """See `Description.build`. Convolutions keep height and width; pools step by their size."""
        maker = NetworkMaker(rng)
        x = maker.builder.input(INPUT, "fp16", inputs)
        for number, text in enumerate(self.layers):
            place = f"model.layers[{number}] {text!r}"
            try:
                x = _layer(maker, x, text, number, place)
            except AneError as error:
                raise error if isinstance(error, FormatError) else FormatError(f"{place}: {error}") from None
        if x.shape != (inputs[0], classes):
            raise FormatError("model.layers must end with one score per class", expected=[inputs[0], classes],
                              found=list(x.shape))
        return maker.finish(x)


def _layer(maker: NetworkMaker, x: Value, text: str, number: int, place: str) -> Value:
    word, *arguments = text.split() or [""]
    if word in FUNCTIONS and not arguments:
        return maker.builder.single(word, f"{word}{number}", x=x)
    known = KINDS.get(word)
    if known is None or len(arguments) != known[1]:
        raise FormatError(f"{place} is no layer; layers are conv OUTPUTS HxW, linear OUTPUTS, max_pool HxW, avg_pool "
                          f"HxW, flatten, {', '.join(FUNCTIONS)}")
    return known[0](maker, x, word, [_extents(argument, place) for argument in arguments], number)


def _extents(text: str, place: str) -> tuple[int, ...]:
    if not re.fullmatch(r"[0-9]{1,5}(x[0-9]{1,5})?", text) or any(
            not 0 < int(part) <= LARGEST for part in text.split("x")):
        raise FormatError(f"{place}: {text!r} is no size; sizes are 16 or 3x3, from 1 to {LARGEST}")
    return tuple(int(part) for part in text.split("x"))


def _conv(maker: NetworkMaker, x: Value, word: str, sizes: list[tuple[int, ...]], number: int) -> Value:
    (outputs, *_), (height, width) = sizes[0], (sizes[1] * 2)[:2]
    if x.type.rank != 4:
        raise GraphError(f"conv takes [N, C, H, W], not {list(x.shape)}")
    for taps, extent in ((height, x.shape[2]), (width, x.shape[3])):
        if taps > 2 * extent - 1:
            raise GraphError(f"a kernel may have at most {2 * extent - 1} taps over {extent} elements, not {taps}: the "
                             "others never meet one, and every tap is computed")
    shape = (outputs, x.shape[1], height, width)
    weight = maker.normal(f"conv{number}_weight", shape, sqrt(2 / prod(shape[1:])))
    bias = maker.filled(f"conv{number}_bias", (outputs, 1, 1), 0.0)
    made = maker.builder.single("conv", f"conv{number}", x=x, weight=weight, pad_type="same", strides=[1, 1],
                                dilations=[1, 1], groups=1, pad=[0, 0, 0, 0])
    return maker.builder.single("add", f"conv{number}_sum", x=made, y=bias)


def _linear(maker: NetworkMaker, x: Value, word: str, sizes: list[tuple[int, ...]], number: int) -> Value:
    return maker.linear(f"linear{number}", x, sizes[0][0], sqrt(2 / x.shape[-1]))


def _pool(maker: NetworkMaker, x: Value, word: str, sizes: list[tuple[int, ...]], number: int) -> Value:
    size = list((sizes[0] * 2)[:2])
    return maker.builder.single(word, f"{word}{number}", x=x, kernel_sizes=size, strides=size, pad_type="valid",
                                pad=[0, 0, 0, 0])


def _flatten(maker: NetworkMaker, x: Value, word: str, sizes: list[tuple[int, ...]], number: int) -> Value:
    return maker.builder.single("reshape", f"flatten{number}", x=x, shape=[x.shape[0], prod(x.shape[1:])])


Layer = Callable[[NetworkMaker, Value, str, list[tuple[int, ...]], int], Value]
KINDS: Mapping[str, tuple[Layer, int]] = {"conv": (_conv, 2), "linear": (_linear, 1), "flatten": (_flatten, 0),
                                          **dict.fromkeys(POOLS, (_pool, 1))}
"""What makes a layer, and how many arguments it takes."""
