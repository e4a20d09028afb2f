"""Comparisons, logic and selection: exact for every pair of finite fp16 numbers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from openane.compiler import compile
from openane.errors import GraphError
from openane.ops.build import GraphBuilder
from openane.ops.comparison import COMPARISONS
from openane.ops.evaluate import evaluate
from openane.ops.logical import BINARY

EDGES = np.array([0.0, -0.0, 2.0 ** -24, -2.0 ** -24, 2.0 ** -14, 2.0 ** -14 - 2.0 ** -24, 1.0, 1 + 2.0 ** -10, -1.0,
                  2048.0, 2050.0, 65504.0, -65504.0, 65472.0, 0.1, 3.0], np.float16)
BITS = st.integers(0, 0x7BFF) | st.integers(0x8000, 0xFBFF)


def halves(bits):
    return np.array(bits, np.uint16).view(np.float16)


def as_numbers(builder, condition):
    return builder.single("cast", x=condition, dtype="fp16")


def check(execute, graph, inputs, mode="exact"):
    model = compile(graph)
    assert not model.host_operations
    found, wanted = execute(model, inputs, mode), evaluate(graph, inputs)
    for name, expected in wanted.items():
        np.testing.assert_array_equal(found[name], expected.astype(np.float64), err_msg=name)
    return model


@pytest.mark.parametrize("mode", ["exact", "fast"])
def test_all_pairs_of_edges(execute, mode):
    builder = GraphBuilder()
    x, y = builder.input("x", "fp16", (16, 1)), builder.input("y", "fp16", (1, 16))
    graph = builder.finish({f"is_{name}": as_numbers(builder, builder.single(name, x=x, y=y)) for name in COMPARISONS})
    check(execute, graph, {"x": EDGES[:, None], "y": EDGES[None, :]}, mode)


@settings(max_examples=30, deadline=None)
@given(first=st.lists(BITS, min_size=24, max_size=24), second=st.lists(BITS, min_size=24, max_size=24),
       same=st.integers(0, 24), name=st.sampled_from(sorted(COMPARISONS)))
def test_any_finite_pair(execute, first, second, same, name):
    x, y = halves(first).reshape(2, 3, 4), halves(first[:same] + second[same:]).reshape(2, 3, 4)
    builder = GraphBuilder()
    result = builder.single(name, x=builder.input("x", "fp16", x.shape), y=builder.input("y", "fp16", y.shape))
    check(execute, builder.finish({"z": as_numbers(builder, result)}), {"x": x, "y": y})


@settings(max_examples=20, deadline=None)
@given(constant=st.sampled_from([0.0, 1.0, -0.1, 65504.0, 2.0 ** -24, np.inf, -np.inf]),
       name=st.sampled_from(sorted(COMPARISONS)), left=st.booleans())
def test_scalar_constants_on_either_side(execute, constant, name, left):
    x = np.append(EDGES, np.float16(constant) if np.isfinite(constant) else np.float16(1)).reshape(1, 17)
    builder = GraphBuilder()
    value = builder.input("x", "fp16", x.shape)
    operands = {"x": constant, "y": value} if left else {"x": value, "y": constant}
    operands = {key: np.float16(v) if isinstance(v, float) else v for key, v in operands.items()}
    graph = builder.finish({"z": as_numbers(builder, builder.single(name, **operands))})
    check(execute, graph, {"x": x})


def test_infinities_and_nan(execute):
    x = np.array([np.inf, -np.inf, np.inf, np.nan, np.nan], np.float16)
    y = np.array([np.inf, -np.inf, -np.inf, np.inf, 1.0], np.float16)
    builder = GraphBuilder()
    a, b = builder.input("x", "fp16", (5,)), builder.input("y", "fp16", (5,))
    outputs = {f"is_{name}": as_numbers(builder, builder.single(name, x=a, y=b)) for name in ("equal", "greater")}
    found = execute(compile(builder.finish(outputs)), {"x": x, "y": y}, "exact")
    assert found["is_equal"].tolist() == [1, 1, 0, 1, 0]
    assert found["is_greater"].tolist() == [0, 0, 1, 0, 1]


def test_integers_compare(execute):
    builder = GraphBuilder()
    x, y = builder.input("x", "int32", (4, 1)), builder.input("y", "int32", (1, 4))
    result = builder.single("less_equal", x=x, y=y)
    model = compile(builder.finish({"z": as_numbers(builder, result)}))
    numbers = np.array([-2048, -1, 7, 2048], np.int32)
    found = execute(model, {"x": numbers[:, None], "y": numbers[None, :]})["z"]
    np.testing.assert_array_equal(found, np.less_equal.outer(numbers, numbers))


@pytest.mark.parametrize("mode", ["exact", "fast"])
def test_truth_tables(execute, mode):
    builder = GraphBuilder()
    x, y = builder.input("x", "fp16", (2, 1)), builder.input("y", "fp16", (1, 2))
    a, b = (builder.single("cast", x=value, dtype="bool") for value in (x, y))
    outputs = {f"is_{name}": as_numbers(builder, builder.single(name, x=a, y=b)) for name in BINARY}
    outputs["not"] = as_numbers(builder, builder.single("logical_not", x=a))
    truth = np.array([0.0, 3.0], np.float16)
    check(execute, builder.finish(outputs), {"x": truth[:, None], "y": truth[None, :]}, mode)


@settings(max_examples=40, deadline=None)
@given(shapes=hnp.mutually_broadcastable_shapes(num_shapes=3, max_dims=5, min_dims=1, max_side=4), data=st.data())
def test_select_takes_what_it_is_told(execute, shapes, data):
    condition, first, second = shapes.input_shapes
    kinds = data.draw(st.tuples(*[st.sampled_from(["runtime", "constant", "zero", "scalar", "infinite"])] * 2))
    draw = np.random.default_rng(data.draw(st.integers(0, 999)))
    builder, inputs = GraphBuilder(), {}

    def value(name, shape, kind):
        numbers = halves(draw.integers(0, 0x7BFF, shape) | (draw.integers(0, 2, shape) << 15))
        if kind == "runtime":
            inputs[name] = numbers
            return builder.input(name, "fp16", shape)
        return {"constant": numbers, "zero": np.float16(0), "scalar": np.float16(-7.5),
                "infinite": np.float16(-np.inf)}[kind]

    a, b = value("a", first, kinds[0]), value("b", second, kinds[1])
    if data.draw(st.booleans()):
        cond = draw.integers(0, 2, condition).astype(bool)
    else:
        inputs["c"] = draw.integers(0, 2, condition).astype(np.float16)
        cond = builder.single("cast", x=builder.input("c", "fp16", condition), dtype="bool")
    if not inputs:
        return
    check(execute, builder.finish({"z": builder.single("select", cond=cond, a=a, b=b)}), inputs)


def test_select_leaves_nothing_of_an_infinite_branch(execute):
    builder = GraphBuilder()
    c, a, b = (builder.input(name, "fp16", (2,)) for name in "cab")
    cond = builder.single("cast", x=c, dtype="bool")
    model = compile(builder.finish({"z": builder.single("select", cond=cond, a=a, b=b)}))
    inputs = {"c": np.array([1, 0], np.float16), "a": np.array([2.5, np.inf], np.float16),
              "b": np.array([-np.inf, 3.0], np.float16)}
    for mode in ("exact", "fast"):
        assert execute(model, inputs, mode)["z"].tolist() == [2.5, 3.0]


@pytest.mark.parametrize(("a", "b", "tasks"), [(1.0, 2.0, 2), (None, 0.0, 2), (None, -1.0, 4), (None, None, 5)])
def test_constants_save_tasks(a, b, tasks):
    builder = GraphBuilder()
    x = builder.input("x", "fp16", (2, 8))
    cond = builder.single("greater", x=x, y=np.float16(0))
    operands = [x if value is None else np.float16(value) for value in (a, b)]
    graph = builder.finish({"z": builder.single("select", cond=cond, a=operands[0], b=operands[1])})
    assert len(compile(graph).program.tasks) == tasks


def test_refusals_name_the_operand():
    builder = GraphBuilder()
    x = builder.input("x", "fp16", (2, 3))
    with pytest.raises(GraphError, match=r"'y'.*must broadcast"):
        builder.single("equal", x=x, y=np.zeros((2, 2), np.float16))
    with pytest.raises(GraphError, match=r"'cond'.*bool"):
        builder.single("select", cond=x, a=x, b=x)
    with pytest.raises(GraphError, match=r"'x'.*bool"):
        builder.single("logical_not", x=x)
