"""Weights written where their routes lead are the bytes the whole compiler would have put there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import openane as ane
from openane.compiler import Model, compile
from openane.compiler.artifact.bundle import model_files, read_model
from openane.compiler.artifact.source_graphs import FUNCTIONS
from openane.compiler.patch_model import in_place, recompiled, rewritten
from openane.errors import UnsupportedError
from openane.graph import Graph, Value
from openane.ops.build import GraphBuilder

Arrays = dict[str, np.ndarray]


class Drawn:
    """A graph in the making with constants from a seed, some of them zero."""

    def __init__(self, seed: int, zeros: float = 0.0) -> None:
        self.random = np.random.default_rng(seed)
        self.zeros = zeros
        self.builder = GraphBuilder()
        self.arrays: Arrays = {}

    def constant(self, name: str, *shape: int, low: float = -1, by_columns: bool = False) -> Value:
        data = self.random.uniform(low, 1, shape)
        data[self.random.random(shape) < self.zeros] = 0
        self.arrays[name] = np.asarray(data, np.float16, order="F" if by_columns else "C")
        return self.builder.constant(self.arrays[name], name)

    def conv(self, x: Value, outputs: int, groups: int, kernel: int, stride: int, bias: bool, name: str) -> Value:
        more = {"bias": self.constant(f"{name}_b", outputs)} if bias else {}
        two = np.array([stride] * 2, np.int32)
        return self.builder.single(
            "conv", x=x, weight=self.constant(f"{name}_w", outputs, x.shape[1] // groups, kernel, kernel), strides=two,
            pad_type="custom", pad=np.array([kernel // 2] * 4, np.int32), dilations=np.array([1, 1], np.int32),
            groups=np.int32(groups), **more)

    def affine(self, x: Value, kind: str, name: str) -> Value:
        channels = x.shape[1]
        if kind == "batch_norm":
            vectors: dict[str, Any] = {part: self.constant(f"{name}_{part}", channels, low=0.2)
                                       for part in ("mean", "variance", "gamma", "beta")}
            return self.builder.single("batch_norm", x=x, epsilon=np.float16(1e-3), **vectors)
        if kind in ("mul", "add"):
            return self.builder.single(kind, x=x, y=self.constant(f"{name}_{kind}", 1, channels, 1, 1))
        return x


def reloaded(model: Model) -> Model:
    """The model as a bundle gives it back."""
    return Model.of(read_model(model_files(model).__getitem__))


def same(model: Model, arrays: Arrays, *, routed: bool = True) -> None:
    """Both ways agree, and the routed one is taken when it must be; a model from a file takes the same."""
    fast, again = rewritten(model, arrays), rewritten(reloaded(model), arrays)
    assert (fast is None) == (again is None)
    if fast is not None and again is not None:
        assert [program.constants for program in again.model.programs] == \
            [program.constants for program in fast.model.programs]
    try:
        slow = recompiled(model, arrays)
    except UnsupportedError:
        assert fast is None
        return
    assert fast is not None or not routed
    if fast is not None:
        assert fast.model.programs == slow.model.programs
        assert fast.ranges == slow.ranges
        for old, new in zip(fast.model.graph.nodes, slow.model.graph.nodes, strict=True):
            assert all(np.array_equal(a.array(), b.array(), equal_nan=a.array().dtype.kind == "f")
                       for a, b in zip(old.values(), new.values(), strict=True) if isinstance(a.data, np.ndarray))


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 999), outputs=st.sampled_from([8, 24, 48, 70, 130]), groups=st.sampled_from([1, 1, 2, 8]),
       kernel=st.sampled_from([1, 3, 5]), stride=st.sampled_from([1, 2]), bias=st.booleans(),
       kinds=st.lists(st.sampled_from(["batch_norm", "mul", "add"]), max_size=2), relu=st.booleans(),
       zeros=st.sampled_from([0.0, 0.0, 0.02]), data=st.data())
def test_convolutions(seed: int, outputs: int, groups: int, kernel: int, stride: int, bias: bool, kinds: list[str],
                      relu: bool, zeros: float, data: st.DataObject) -> None:
    """Dense, grouped, depthwise, zero-skipping; with and without biases and folded vectors; some or all of them new."""
    drawn = Drawn(seed, zeros)
    x = drawn.builder.input("x", "fp16", (1, 16, 10, 10))
    y = drawn.conv(x, 16 if groups == 8 else outputs - outputs % groups, 16 if groups == 8 else groups, kernel, stride,
                   bias, "first")
    for number, kind in enumerate(kinds):
        y = drawn.affine(y, kind, f"affine{number}")
    if relu:
        y = drawn.builder.single("relu", x=y)
    y = drawn.conv(y, 8, 1, 1, 1, True, "second")
    model = compile(drawn.builder.finish({"y": y}))
    names = data.draw(st.lists(st.sampled_from(sorted(drawn.arrays)), min_size=1, unique=True))
    new = {name: np.where(drawn.arrays[name] == 0, 0, 1.1 * drawn.arrays[name].astype(np.float32) + 0.001)
           for name in names}
    same(model, new)
    once = rewritten(model, new)
    if once is not None:
        same(once.model, {name: array[::-1] for name, array in drawn.arrays.items() if name in names}, routed=False)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 999), rows=st.sampled_from([1, 8, 16, 64, 130]), inputs=st.sampled_from([16, 70, 256]),
       outputs=st.sampled_from([10, 64, 130]), op=st.sampled_from(["linear", "by columns", "matmul", "turned"]),
       bias=st.booleans(), scale=st.booleans())
def test_products(seed: int, rows: int, inputs: int, outputs: int, op: str, bias: bool, scale: bool) -> None:
    drawn = Drawn(seed)
    x = drawn.builder.input("x", "fp16", (rows, inputs))
    if op in ("linear", "by columns"):
        more = {"bias": drawn.constant("b", outputs)} if bias else {}
        weight = drawn.constant("w", outputs, inputs, by_columns=op != "linear")
        y = drawn.builder.single("linear", x=x, weight=weight, **more)
    else:
        shape = (outputs, inputs) if op == "turned" else (inputs, outputs)
        y = drawn.builder.single("matmul", x=x, y=drawn.constant("w", *shape), transpose_x=np.bool_(False),
                                 transpose_y=np.bool_(op == "turned"))
        if bias:
            y = drawn.builder.single("add", x=y, y=drawn.constant("b", outputs))
    if scale:
        y = drawn.builder.single("mul", x=y, y=drawn.builder.constant(np.float16(0.3), "scale"))
    model = compile(drawn.builder.finish({"y": y}))
    same(model, {name: array.astype(np.float32) * 1.01 for name, array in drawn.arrays.items()})
    same(model, {"w": drawn.arrays["w"] * np.float16(0.5)})


def test_vectors_that_stand_alone() -> None:
    """Normalisations behind a concatenation, gains and offsets that become one, vectors of a layer norm, a table that
    is added, kernels whose taps are laid out anew."""
    drawn = Drawn(7)
    x = drawn.builder.input("x", "fp16", (1, 16, 12, 12))
    y = drawn.builder.single("concat", values=(x, drawn.builder.single("tanh", x=x)), axis=np.int32(1))
    for kind in ("batch_norm", "mul", "add"):
        y = drawn.affine(y, kind, kind)
    y = drawn.builder.single("relu", x=y)
    y = drawn.builder.single(
        "conv", x=y, weight=drawn.constant("strided", 24, 32, 5, 5), strides=np.array([4, 4], np.int32),
        pad_type="custom", pad=np.array([2] * 4, np.int32), dilations=np.array([1, 1], np.int32), groups=np.int32(1),
        bias=drawn.constant("strided_b", 24))
    y = drawn.builder.single("reshape", x=y, shape=[24, 9])
    y = drawn.builder.single("add", x=y, y=drawn.constant("table", 24, 9))
    y = drawn.builder.single("layer_norm", x=y, axes=np.array([1], np.int32), epsilon=np.float16(1e-3),
                             gamma=drawn.constant("gamma", 9), beta=drawn.constant("beta", 9))
    model = compile(drawn.builder.finish({"y": y}))
    assert not in_place(model, drawn.arrays)
    same(model, {name: array.astype(np.float32) * 0.97 for name, array in drawn.arrays.items()})
    for name in ("mul_mul", "batch_norm_variance", "strided", "beta"):
        same(model, {name: drawn.arrays[name] * np.float16(0.9)})


def test_what_was_patched_is_patched_again() -> None:
    """Constants that are not given keep the numbers they were given last, in a model from a file as well."""
    drawn = Drawn(3)
    y = drawn.conv(drawn.builder.input("x", "fp16", (1, 16, 10, 10)), 24, 1, 3, 1, True, "first")
    model = compile(drawn.builder.finish({"y": drawn.affine(y, "batch_norm", "affine")}))
    first = {"affine_gamma": drawn.arrays["affine_gamma"] * np.float16(0.5)}
    second = {"first_w": drawn.arrays["first_w"] * np.float16(0.5)}
    whole = recompiled(model, first | second).model
    for one in (model, reloaded(model), reloaded(model.patch(second).model)):
        patched = one.patch(first).model.patch(second)
        assert not patched.recompiled
        assert [program.constants for program in patched.model.programs] == \
            [program.constants for program in whole.programs]
        held, wanted = ({value.name: value.data for node in each.graph.nodes for value in node.values()}
                        for each in (patched.model, whole))
        assert all(np.array_equal(held[name], wanted[name]) for name in drawn.arrays)


def test_single_numbers_are_as_they_were_when_saved() -> None:
    """An epsilon that was patched is that of the model from its file; the graph is not read for it."""
    drawn = Drawn(8)
    y = drawn.conv(drawn.builder.input("x", "fp16", (1, 16, 10, 10)), 24, 1, 3, 1, True, "first")
    model = compile(drawn.builder.finish({"y": drawn.affine(y, "batch_norm", "affine")}))
    [epsilon] = [value.name for node in model.graph.nodes for value in node.values() if "epsilon" in value.name]
    patched = model.patch({epsilon: np.array(0.25)}).model
    files = model_files(patched)
    loaded = Model.of(read_model({name: data for name, data in files.items() if name != FUNCTIONS}.__getitem__))
    again = loaded.patch(drawn.arrays)
    assert not again.recompiled
    assert again.model.programs[0].constants == patched.programs[0].constants


def test_given_arrays_stay_their_owners() -> None:
    drawn = Drawn(5)
    y = drawn.conv(drawn.builder.input("x", "fp16", (1, 16, 10, 10)), 24, 1, 3, 1, True, "first")
    model = compile(drawn.builder.finish({"y": drawn.affine(y, "batch_norm", "affine")}))
    given = {name: array.copy() for name, array in drawn.arrays.items()}
    patched = model.patch(given).model
    for array in given.values():
        array[...] = 0
    assert all(np.array_equal(value.array(), drawn.arrays[value.name]) for node in patched.graph.nodes
               for value in node.values() if value.name in drawn.arrays)


def test_pieces_that_come_to_be_equal_stay_apart() -> None:
    """A compilation stores equal pieces of one weight once; written in place they keep their places, and the program
    computes the same."""
    drawn = Drawn(6)
    x = drawn.builder.input("x", "fp16", (4, 600))
    y = drawn.builder.single("linear", x=x, weight=drawn.constant("w", 3000, 600))
    model = compile(drawn.builder.finish({"y": y}))
    zeros = np.zeros((3000, 600), np.float16)
    patched = model.patch({"w": zeros})
    assert not patched.recompiled
    assert not any(patched.model.program.constants)


def tied() -> Graph:
    """One weight and bias in two convolutions, and the weight of a third also added to its result."""
    drawn = Drawn(1)
    x = drawn.builder.input("x", "fp16", (1, 8, 6, 6))
    w, b = drawn.constant("w", 8, 8, 1, 1), drawn.constant("b", 8)
    y = drawn.builder.single("conv", x=x, weight=w, bias=b)
    y = drawn.builder.single("conv", x=drawn.builder.single("relu", x=y), weight=w, bias=b)
    v = drawn.constant("v", 8, 8, 1, 1)
    z = drawn.builder.single("conv", x=y, weight=v)
    z = drawn.builder.single("mul", x=z, y=drawn.builder.single("reduce_max", x=v, axes=np.array([0, 1], np.int32),
                                                                keep_dims=np.bool_(True)))
    return drawn.builder.finish({"y": z})


def test_shared_constants_and_ones_that_go_other_ways() -> None:
    model = compile(tied())
    random = np.random.default_rng(2)
    new = {name: random.uniform(-1, 1, shape) for name, shape in (("w", (8, 8, 1, 1)), ("b", (8,)))}
    same(model, new)
    assert rewritten(model, {"v": random.uniform(-1, 1, (8, 8, 1, 1))}) is None
    same(model, {"v": random.uniform(-1, 1, (8, 8, 1, 1))}, routed=False)


@pytest.mark.parametrize(("name", "value"), [("affine_variance", 0.0), ("affine_gamma", 6e4), ("first_w", np.nan)])
def test_numbers_that_change_more_than_bytes_are_not_taken(name: str, value: float) -> None:
    drawn = Drawn(4)
    y = drawn.conv(drawn.builder.input("x", "fp16", (1, 16, 10, 10)), 24, 1, 3, 1, True, "first")
    model = compile(drawn.builder.finish({"y": drawn.affine(y, "batch_norm", "affine")}))
    same(model, {name: np.full_like(drawn.arrays[name], value)}, routed=False)


def test_constants_of_more_dimensions_may_lie_in_another_order() -> None:
    builder = GraphBuilder("turned")
    turned = np.arange(24, dtype=np.float16).reshape(4, 3, 2).T
    graph = builder.finish({"y": builder.single("add", x=builder.input("x", "fp16", (2, 3, 4)), y=turned)})
    found = ane.run(compile(graph), {"x": np.ones((2, 3, 4), np.float16)}, "simulator")["y"]
    assert np.array_equal(found, turned + np.float16(1))


def test_what_waits_for_routes_keeps_no_numbers_but_those_of_the_graph() -> None:
    drawn = Drawn(3)
    x = drawn.builder.input("x", "fp16", (1, 64, 12, 12))
    y = drawn.affine(drawn.conv(x, 64, 1, 3, 1, True, "a"), "batch_norm", "n")
    y = drawn.affine(drawn.conv(y, 64, 1, 1, 1, False, "b"), "mul", "m")
    model = compile(drawn.builder.finish({"y": y}))
    assert model.patchable is not None
    waiting: Any = model.patchable._routes
    held = {id(value) for node in model.graph.nodes for value in node.values()}
    seen, more = list(waiting.args[1][0].nodes), 0
    while seen:
        node = seen.pop()
        seen += [*node.users, *(() if node.before is None else (node.before,))]
        for operand in node.operands.values():
            if isinstance(operand, Value) and isinstance(operand.data, np.ndarray) and id(operand) not in held:
                more += operand.data.nbytes
    assert more < 1 << 12
    assert {route.weight for route in model.patchable.routes.routes} == {"a_w", "b_w"}
