"""Joint graphs with many weights by few ports: the same bits, one program, and what does not fit is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import openane as ane
from openane.errors import GraphError
from openane.ops.build import GraphBuilder
from openane.ops.evaluate import evaluate
from openane.training.gradient import gradient, output_name
from openane.training.gradient_losses import mean_squared_error
from openane.training.ports import packed

SHAPES = st.lists(st.lists(st.integers(1, 5), max_size=4).map(tuple), min_size=1, max_size=12)


def layers(widths):
    """A joint graph with a weight and a bias for each of the layers between these widths, and their values."""
    builder, rng = GraphBuilder(), np.random.default_rng(0)
    x, values = builder.input("x", "fp16", (16, widths[0])), {}
    values["x"] = rng.normal(size=x.shape).astype(np.float16)
    for number, width in enumerate(widths[1:]):
        weight = rng.normal(size=(width, x.shape[1])) * x.shape[1] ** -0.5
        drawn = {f"weight{number}": weight, f"bias{number}": rng.normal(size=width) / 4}
        made = {name: builder.constant(data.astype(np.float16), name) for name, data in drawn.items()}
        values |= {name: value.array() for name, value in made.items()}
        x = builder.single("linear", x=x, weight=made[f"weight{number}"], bias=made[f"bias{number}"])
        x = builder.single("tanh", x=x)
    target = builder.input("target", "fp16", x.shape)
    values["target"] = rng.normal(size=x.shape).astype(np.float16)
    graph = builder.finish({"loss": mean_squared_error(builder, x, target)})
    names = [name for name in values if name not in ("x", "target")]
    return gradient(graph, "loss", names, scale=16.0), names, values


def packed_values(made, values):
    kept = {name: array for name, array in values.items() if name not in made.inputs.places}
    return kept | made.inputs.pack(values)


def test_the_same_bits():
    joint, names, values = layers([32, 48, 32, 48])
    made = packed(joint, names, map(output_name, names))
    assert [value.name for value in made.graph.inputs] == ["x", "target", "weights0", "weights1"]
    plain, dense = ane.compile(joint), ane.compile(made.graph)
    assert len(plain.programs) == len(dense.programs) == 1
    wanted = ane.run(plain, values)
    found = made.outputs.unpack(ane.run(dense, packed_values(made, values)))
    assert found.keys() == wanted.keys()
    for name, array in wanted.items():
        assert found[name].tobytes() == array.tobytes(), name


def test_one_program_of_what_were_several():
    joint, names, values = layers([16, 24] * 8)
    made = packed(joint, names, map(output_name, names))
    assert len(ane.compile(joint).programs) > 1
    model = ane.compile(made.graph)
    assert len(model.programs) == 1
    assert not model.host_operations
    found = made.outputs.unpack(ane.run(model, packed_values(made, values)))
    for name, expected in evaluate(joint, values).items():
        assert np.abs(found[name] - expected).max() <= 3e-2 * np.abs(expected).max(), name  # 15 tables deep


def test_widths_join_where_ports_are_few():
    widths = [8 + 3 * i for i in range(24)]
    joint, names, values = layers(widths)
    made = packed(joint, names, map(output_name, names))
    assert len(made.graph.inputs) + len(made.graph.outputs) == 28
    found = made.outputs.unpack(evaluate(made.graph, packed_values(made, values)))
    for name, expected in evaluate(joint, values).items():
        assert np.allclose(found[name], expected, rtol=1e-5), name


@settings(max_examples=40, deadline=None, derandomize=True)
@given(SHAPES, st.data())
def test_round_trips(shapes, data):
    builder, rng = GraphBuilder(), np.random.default_rng(0)
    values, results = {}, {}
    for number, shape in enumerate(shapes):
        dtype = data.draw(st.sampled_from(["fp16", "fp32"]))
        value = builder.input(f"x{number}", dtype, shape)
        values[value.name] = rng.normal(size=shape).astype(np.float16 if dtype == "fp16" else np.float32)
        results[f"y{number}"] = builder.single("mul", x=value, y=2.0)
    graph = builder.finish(results)
    made = packed(graph, values, results)
    surfaces = made.inputs.pack(values)
    back = made.inputs.unpack(surfaces)
    assert all(np.array_equal(back[name], array) and back[name].shape == array.shape for name, array in values.items())
    assert len(surfaces) <= len(shapes)
    found = made.outputs.unpack(evaluate(made.graph, surfaces))
    for name, array in values.items():
        assert np.array_equal(found[f"y{name[1:]}"], 2 * array)


def test_what_is_refused():
    joint, names, values = layers([8, 8])
    with pytest.raises(GraphError, match="'nothing' is no port"):
        packed(joint, ["nothing"], [])
    with pytest.raises(GraphError, match="'weight0' is no port"):
        packed(joint, names, ["weight0"])
    made = packed(joint, names, [])
    with pytest.raises(GraphError, match=r"'bias0' must be given with shape \[8\]; found none"):
        made.inputs.pack({"weight0": values["weight0"]})
    with pytest.raises(GraphError, match=r"'weight0' must be given with shape \[8, 8\]; found \(4, 8\)"):
        made.inputs.pack({**values, "weight0": values["weight0"][:4]})
