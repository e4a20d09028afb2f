"""Random graphs: constants read in all kinds of ways, by one operation or several. Whatever is said to be written in
place gives the program a compilation with the new numbers gives."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from openane.chips import compiled_generations
from openane.compiler import compile
from openane.compiler.artifact.bundle import model_files, read_model
from openane.compiler.artifact.cache_program import read_cached, write_cached
from openane.compiler.patch_model import in_place, recompiled, rewritten
from openane.errors import UnsupportedError
from openane.graph import Graph, Value
from openane.ops.build import GraphBuilder

KINDS = ("conv", "depthwise", "strided", "transposed", "linear", "matmul", "left", "mul", "add", "sub", "from", "div",
         "maximum", "norm", "layer_norm", "rms_norm", "concat", "relu", "tanh", "reshape", "transpose", "scale")


class Grown:
    """A graph that grows by random operations on [1, C, H, W] and [M, K] tensors, and its constants."""

    def __init__(self, draw: Any) -> None:
        self.draw, self.random = draw, np.random.default_rng(draw(st.integers(0, 999)))
        self.builder, self.constants = GraphBuilder(), list[Value]()
        self.values = [self.builder.input("a", "fp16", (1, 8, 6, 6)), self.builder.input("b", "fp16", (6, 16))]

    def constant(self, *shape: int, low: float = -1.0) -> Value:
        """A new constant, or one there is that has the shape."""
        known = [value for value in self.constants if value.shape == shape and low < 0]
        if known and self.draw(st.integers(0, 3)) == 0:
            return self.draw(st.sampled_from(known))  # type: ignore[no-any-return]
        data = self.random.uniform(low, 1, shape).astype(np.float16)
        self.constants.append(self.builder.constant(data, f"c{len(self.constants)}"))
        return self.constants[-1]

    def grow(self) -> None:
        """One more value."""
        x, kind, make = self.draw(st.sampled_from(self.values)), self.draw(st.sampled_from(KINDS)), self.builder.single
        image, channels = len(x.shape) == 4, x.shape[1]
        vector = self.draw(st.sampled_from([tuple(e if d == 1 else 1 for d, e in enumerate(x.shape)), x.shape,
                                            x.shape[-1:]]))
        if kind in ("mul", "add", "maximum"):
            value = make(kind, x=x, y=self.constant(*vector))
        elif kind in ("sub", "div"):
            value = make("real_div" if kind == "div" else kind, x=x, y=self.constant(*vector, low=0.3))
        elif kind == "from":
            value = make("sub", x=self.constant(*vector), y=x)
        elif kind == "scale":
            value = make("mul", x=x, y=np.float16(0.5))
        elif kind in ("layer_norm", "rms_norm"):
            last = len(x.shape) - 1
            more = {"beta": self.constant(x.shape[-1])} if kind == "layer_norm" else {}
            value = make(kind, x=x, axes=[last], epsilon=np.float16(1e-2), gamma=self.constant(x.shape[-1]), **more)
        elif kind == "concat" and x.type.elements < 2000:
            value = make("concat", values=(x, self.constant(*x.shape)), axis=np.int32(1))
        elif kind == "transpose":
            value = make("transpose", x=x, perm=[0, 1, 3, 2] if image else [1, 0])
        elif kind == "reshape" and image:
            value = make("reshape", x=x, shape=[channels, -1])
        else:
            value = self.weighted(kind, x) if image else self.product(kind, x)
        self.values.append(value)

    def weighted(self, kind: str, x: Value) -> Value:
        """A convolution or a normalisation of an image."""
        channels, make = x.shape[1], self.builder.single
        if kind == "norm":
            mean, variance = self.constant(channels), self.constant(channels, low=0.2)
            return make("batch_norm", x=x, mean=mean, variance=variance, gamma=self.constant(channels),
                        beta=self.constant(channels), epsilon=np.float16(1e-2))
        groups, stride = channels if kind == "depthwise" else 1, 2 if kind == "strided" else 1
        outputs, taps = channels if kind == "depthwise" else self.draw(st.sampled_from([8, 20])), 3
        if kind == "transposed":
            return make("conv_transpose", x=x, weight=self.constant(channels, outputs, 2, 2), strides=[2, 2])
        more = {"bias": self.constant(outputs)} if self.draw(st.booleans()) else {}
        return make("conv", x=x, weight=self.constant(outputs, channels // groups, taps, taps), groups=np.int32(groups),
                    pad_type="custom", pad=[1, 1, 1, 1], strides=[stride, stride], **more)

    def product(self, kind: str, x: Value) -> Value:
        """A product with a matrix, or something without constants."""
        make, (rows, inputs) = self.builder.single, x.shape
        if kind in ("conv", "linear"):
            return make("linear", x=x, weight=self.constant(12, inputs), bias=self.constant(12))
        if kind in ("matmul", "strided"):
            return make("matmul", x=x, y=self.constant(inputs, 10))
        if kind in ("left", "depthwise"):
            return make("matmul", x=self.constant(7, rows), y=x)
        return make("tanh" if kind == "tanh" else "relu", x=x)

    def graph(self) -> Graph:
        """The graph, its last values as outputs."""
        return self.builder.finish({f"out{i}": value for i, value in enumerate(self.values[-2:])})


@st.composite
def grown(draw: Any) -> tuple[Graph, list[Value]]:
    """A graph and its constants."""
    whole = Grown(draw)
    for _ in range(draw(st.integers(1, 8))):
        if max(value.type.elements for value in whole.values) < 5000:
            whole.grow()
    return whole.graph(), whole.constants


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(grown(), st.data())
def test_what_is_written_in_place_is_what_a_compilation_makes(pair: tuple[Graph, list[Value]],
                                                              data: st.DataObject) -> None:
    graph, constants = pair
    model = compile(graph, target=data.draw(st.sampled_from(compiled_generations())))
    names = [value.name for value in constants if not in_place(model, [value.name])]
    if not names:
        return
    chosen = data.draw(st.lists(st.sampled_from(names), min_size=1, unique=True))
    factor = data.draw(st.sampled_from([0.75, -1.0, 1.0]))
    arrays = {value.name: value.array().astype(np.float64) * (abs(factor) if (value.array() > 0).all() else factor)
              for value in constants if value.name in chosen}
    found = rewritten(model, arrays)
    loaded = rewritten(read_model(model_files(model, write=write_cached).__getitem__, program=read_cached), arrays)
    assert (found is None) == (loaded is None)
    try:
        wanted = recompiled(model, arrays).model.programs
    except UnsupportedError:
        assert found is None
        return
    if found is not None and loaded is not None:
        assert found.model.programs == wanted
        assert loaded.model.programs == wanted
