"""Element types: ports of every MIL type, casts between them, one-byte tensors moved as they are."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import openane as ane
from openane.chips import get_chip
from openane.compiler import Model, Where, compile
from openane.compiler.lower.byte_types import STORED
from openane.devices.steps import convert
from openane.engine import DType, sources
from openane.errors import DeviceError
from openane.ops.build import GraphBuilder
from openane.ops.evaluate import evaluate
from openane.program.verify import verify
from openane.simulator.strict import strict

FEW = settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
TYPES = st.sampled_from(sorted(STORED))
EXTENTS = st.lists(st.integers(1, 9), min_size=1, max_size=5).map(tuple)
ENDS = {"int8": (-128, 127), "uint8": (0, 255), "int16": (-2048, 2048), "uint16": (0, 2048), "int32": (-2048, 2048)}


def numbers(dtype, shape, seed=0):
    """Values the type holds and fp16 holds exactly, the ends of its range among them."""
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return rng.random(shape) < 0.5
    if dtype in ENDS:
        low, high = ENDS[dtype]
        values = rng.integers(low, high, shape, endpoint=True)
        values.reshape(-1)[:1] = low if seed % 2 else high
        return values.astype(dtype)
    return rng.uniform(-300, 300, shape).astype(np.float16).astype({"fp16": np.float16, "fp32": np.float32}[dtype])


def check(graph, seed=0):
    """Compiles, verifies, runs under strict rules and as a model; results are exactly the reference's."""
    model = compile(graph)
    verify(model.program)
    report = strict(model.program)
    assert not report.faults, report.faults
    assert report.executed
    inputs = {v.name: numbers(v.dtype, v.shape, seed) for v in graph.inputs}
    found = ane.run(model, inputs)
    for name, wanted in evaluate(graph, inputs).items():
        port = model.port(name)
        assert found[name].dtype == np.dtype({"fp16": "float16", "fp32": "float32"}.get(port.dtype, port.dtype))
        np.testing.assert_array_equal(found[name].astype(np.float64), np.asarray(wanted).astype(np.float64), name)
    assert not model.host_operations
    return model


@FEW
@given(source=TYPES, target=TYPES, shape=EXTENTS, seed=st.integers(0, 9))
def test_casts_are_one_task(source, target, shape, seed):
    builder = GraphBuilder()
    x = builder.input("x", source, shape)
    model = check(builder.finish({"y": builder.single("cast", x=x, dtype=target)}), seed)
    assert len(model.program.tasks) == 1
    for port in (*model.inputs, *model.outputs):
        assert port.layout.dtype is STORED[port.dtype]
        assert port.layout.strides[3] % 64 == 0


@FEW
@given(dtype=TYPES, shape=EXTENTS, data=st.data())
def test_movement_keeps_the_elements(dtype, shape, data):
    order = data.draw(st.permutations(range(len(shape))))
    axis = data.draw(st.integers(0, len(shape) - 1))
    builder = GraphBuilder()
    x = builder.input("x", dtype, shape)
    turned = builder.single("transpose", x=x, perm=order)
    model = check(builder.finish({
        "turned": turned, "flat": builder.single("reshape", x=turned, shape=[int(np.prod(shape))]),
        "joined": builder.single("concat", values=(x, x, x), axis=axis),
        "tiled": builder.single("tile", x=x, reps=[2 if d == axis else 1 for d in range(len(shape))]),
    }))
    if STORED[dtype] is not DType.FLOAT16:
        for task in model.program.tasks:
            operation = get_chip(model.target).operation(task.words)
            assert operation.result.dtype is STORED[dtype]
            assert all(access.dtype is STORED[dtype] for access in sources(operation))


def test_arithmetic_between_one_byte_ports():
    builder = GraphBuilder()
    x, y = builder.input("x", "bool", (3, 40)), builder.input("y", "int8", (3, 40))
    wide = [builder.single("cast", x=v, dtype="fp16") for v in (x, y)]
    total = builder.single("add", x=wide[0], y=wide[1])
    check(builder.finish({"z": builder.single("cast", x=total, dtype="int8"), "t": total,
                          "b": builder.single("cast", x=total, dtype="bool")}))


def test_a_result_that_is_read_again_is_converted_by_a_copy():
    builder = GraphBuilder()
    z = builder.single("cast", x=builder.input("x", "fp16", (3, 40)), dtype="bool")
    check(builder.finish({"z": z, "w": builder.single("cast", x=z, dtype="fp16"),
                          "again": builder.single("identity", x=z)}))


def test_what_the_host_does_to_integers_is_reported():
    builder = GraphBuilder()
    x = builder.input("x", "int32", (5,))
    model = compile(builder.finish({"y": builder.single("cast", x=x, dtype="uint8")}))
    host = [entry for entry in model.report if entry.where is Where.PORT]
    assert [entry.operation for entry in host] == ["port 'x'"]
    assert "exactly" in host[0].reason
    with pytest.raises(DeviceError, match="2049, which fp16 cannot hold exactly"):
        ane.run(model, {"x": np.array([1, 2, 2049, 4, 5], np.int32)})
    assert ane.run(model, {"x": np.array([0, 255, 4096, -7, 3], np.int32)})["y"].tolist() == [0, 255, 255, 0, 3]


def test_integers_beyond_fp16():
    """A cast ends at the largest fp16 number; an infinity computed as an integer is an error, not a number."""
    builder = GraphBuilder()
    x = builder.input("x", "fp16", (2,))
    model = compile(builder.finish({"y": builder.single("cast", x=builder.single("exp", x=x), dtype="int32")}))
    assert ane.run(model, {"x": np.array([1.0, 12.0], np.float16)})["y"].tolist() == [2, 65504]
    with pytest.raises(DeviceError, match="left its range"):
        convert(np.array([np.inf], np.float16), "int32", "y")


@pytest.mark.parametrize("dtype", ["bool", "int8", "int32"])
def test_models_keep_their_types_on_disk(tmp_path, dtype):
    builder = GraphBuilder()
    x = builder.input("x", dtype, (2, 3, 40))
    model = compile(builder.finish({"y": builder.single("transpose", x=x, perm=[2, 0, 1])}))
    model.save(tmp_path / "m.ane")
    again = Model.load(tmp_path / "m.ane")
    assert again.inputs == model.inputs
    assert again.outputs == model.outputs
    values = numbers(dtype, (2, 3, 40))
    np.testing.assert_array_equal(ane.run(again, {"x": values})["y"], values.transpose(2, 0, 1))
