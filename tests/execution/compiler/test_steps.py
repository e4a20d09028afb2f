"""Models of several steps: programs split where one cannot hold the graph, and host operations between programs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.h13 import LIMITS
from support.host_operations import row_means

import openane as ane
from openane.compiler import HostStep, Model, ProgramStep, Where, compile
from openane.compiler.partition.capacity import Capacity
from openane.errors import GraphError, UnsupportedError
from openane.graph import Graph, Value
from openane.ops.build import GraphBuilder
from openane.ops.evaluate import evaluate
from openane.program.verify import verify

CAPACITY = Capacity.of(LIMITS)
RNG = np.random.default_rng(5)
ABSOLUTE, RELATIVE = 2e-2, 1e-2


def half(*shape: int) -> np.ndarray:
    return RNG.uniform(-1, 1, shape).astype(np.float16)


def held(model: Model, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Runs a model whose programs all verify and holds it to its reference."""
    for program in model.programs:
        verify(program)
    found, wanted = ane.run(model, inputs), evaluate(model.graph, inputs)
    for name, expected in wanted.items():
        wide = expected.astype(np.float64)
        error = np.abs(found[name].astype(np.float64) - wide)
        assert (error <= ABSOLUTE + RELATIVE * np.abs(wide)).all(), f"{name}: worst {error.max()}"
    return found


def saved(model: Model, folder: Path) -> Model:
    model.save(folder / "model.ane")
    return Model.load(folder / "model.ane")


def network(steps: list[str]) -> tuple[Graph, dict[str, np.ndarray]]:
    """Layers one after another on x of [1, 8, 6, 6], every third added to what was two before it."""
    builder = GraphBuilder()
    x = builder.input("x", "fp16", (1, 8, 6, 6))
    kept: list[Value] = [x]
    for number, name in enumerate(steps):
        last = kept[-1]
        if name == "conv":
            weight = (half(8, 8, 3, 3) * np.float16(0.2)).astype(np.float16)
            value = builder.single("conv", x=last, weight=weight, pad_type="same")
        elif name == "turn":
            value = builder.single("transpose", x=last, perm=[0, 1, 3, 2])
        elif name == "fold":
            flat = builder.single("reshape", x=last, shape=[1, 8, 36])
            value = builder.single("reshape", x=builder.single("tanh", x=flat), shape=[1, 8, 6, 6])
        elif name == "less":
            yes = builder.single("less", x=last, y=kept[0])
            value = builder.single("select", cond=yes, a=last, b=kept[0])
        else:
            value = builder.single(name, x=last, **({"axis": 1} if name == "softmax" else {}))
        if number % 3 == 2:
            value = builder.single("add", x=value, y=kept[-2])
        kept.append(value)
    outputs = {"y": kept[-1], "early": kept[len(kept) // 2]} if len(kept) > 3 else {"y": kept[-1]}
    return builder.finish(outputs), {"x": half(1, 8, 6, 6)}


LAYERS = st.lists(st.sampled_from(["conv", "relu", "softmax", "turn", "fold", "sigmoid", "less"]), min_size=2,
                  max_size=8)


@settings(max_examples=25, deadline=None)
@given(LAYERS, st.integers(1, 6), st.integers(3, 6))
def test_a_split_model_computes_the_same(steps: list[str], tasks: int, ports: int) -> None:
    graph, inputs = network(steps)
    whole = compile(graph)
    try:
        model = compile(graph, capacity=replace(CAPACITY, ports=ports, tasks=tasks))
    except UnsupportedError as refused:  # one operation alone is more than such small programs hold
        named = refused.operation.partition(" ")[0]
    else:
        named = ""
    if named:
        assert named in {node.op for node in graph.nodes}
        return
    assert all(len(program.tasks) <= tasks for program in model.programs)
    assert all(len(program.inputs) + len(program.outputs) <= ports for program in model.programs)
    assert not model.host_operations
    found, before = held(model, inputs), held(whole, inputs)
    for name, array in before.items():
        np.testing.assert_allclose(found[name].astype(float), array.astype(float), atol=ABSOLUTE)
    for entry in model.report:
        assert all(task < len(model.programs[entry.program].tasks) for task in entry.tasks)
    tasks_of = [(entry.program, task) for entry in model.report for task in entry.tasks]
    assert len(set(tasks_of)) == len(tasks_of) == sum(len(program.tasks) for program in model.programs)


def many_inputs(count: int) -> tuple[Graph, dict[str, np.ndarray]]:
    builder = GraphBuilder()
    inputs = [builder.input(f"x{i}", "fp16", (1, 4, 2, 8)) for i in range(count)]
    total = inputs[0]
    for value in inputs[1:]:
        total = builder.single("add", x=total, y=value)
    return builder.finish({"total": total}), {f"x{i}": half(1, 4, 2, 8) for i in range(count)}


def test_more_ports_than_slots_make_several_programs(tmp_path: Path) -> None:
    graph, inputs = many_inputs(60)
    model = compile(graph)
    assert len(model.programs) == len(model.steps) > 1
    found = held(model, inputs)
    again = saved(model, tmp_path)
    np.testing.assert_array_equal(ane.run(again, inputs)["total"], found["total"])
    assert (again.steps, again.report, again.programs) == (model.steps, model.report, model.programs)
    with pytest.raises(GraphError, match="not one"):
        _ = model.program
    with pytest.raises(GraphError, match="save a bundle"):
        model.save(tmp_path / "model.hwx")


def test_programs_are_split_where_memory_ends() -> None:
    graph, inputs = network(["conv"] * 6)
    whole = compile(graph).program
    used = len(whole.constants) + sum(buffer.size for buffer in whole.buffers) + len(whole.text())
    model = compile(graph, capacity=replace(CAPACITY, memory=used * 2 // 3))
    assert len(model.programs) > 1
    for program in model.programs:
        assert len(program.constants) + sum(b.size for b in program.buffers) + len(program.text()) <= used * 2 // 3
    held(model, inputs)


def test_an_operation_with_more_operands_than_slots_is_named() -> None:
    builder = GraphBuilder()
    wide = [builder.input(f"x{i}", "fp16", (1, 4)) for i in range(40)]
    graph = builder.finish({"y": builder.single("concat", "y", values=wide, axis=0)})
    with pytest.raises(UnsupportedError, match=r"^concat .*needs a base-address slot.*limit 28, found 41"):
        compile(graph)


def lookup() -> tuple[Graph, dict[str, np.ndarray]]:
    """A layer on rows of a table chosen by an input, and a product the engine has no reduction for."""
    builder = GraphBuilder()
    ids = builder.input("ids", "int32", (4,))
    table = half(5000, 16)
    rows = builder.single("gather", "rows", x=table, indices=ids, axis=0)
    hidden = builder.single("linear", "hidden", x=rows, weight=half(16, 16))
    scaled = builder.single("relu", "scaled", x=hidden)
    mean = row_means(builder, scaled, "mean")
    graph = builder.finish({"y": builder.single("add", "y", x=scaled, y=mean), "rows": rows})
    return graph, {"ids": np.array([4999, 0, 2049, 7], np.int32)}


def test_host_operations_need_leave_and_are_listed(tmp_path: Path) -> None:
    graph, inputs = lookup()
    with pytest.raises(UnsupportedError, match=r"gather 'rows'.*\n.*roi_align|gather 'rows'[^$]*roi_align"):
        compile(graph, allow_host=False)
    with pytest.raises(UnsupportedError, match=r"^(?!.*gather).*roi_align 'mean'"):
        compile(graph)  # lookups alone
    with pytest.raises(UnsupportedError, match="gather 'rows'"):
        compile(graph, allow_host=["roi_align"])
    with pytest.raises(UnsupportedError, match="no MIL operation"):
        compile(graph, allow_host="roi_aligned")
    assert len(compile(graph, allow_host="lookups,roi_align").host_operations) == 2
    model = compile(graph, allow_host=True)
    host = {entry.operation: entry.reason for entry in model.report if entry.where is Where.HOST}
    assert set(host) == {"gather 'rows'", "roi_align 'mean'"}
    assert "Indices must be constants" in host["gather 'rows'"]
    assert [type(step) for step in model.steps] == [HostStep, ProgramStep, HostStep, ProgramStep]
    found = held(model, inputs)
    table = graph.nodes[0]["x"].array()
    np.testing.assert_array_equal(found["rows"], table[inputs["ids"]])  # numbers fp16 cannot hold reach the host
    again = saved(model, tmp_path)
    assert (again.host_operations, len(again.host_steps)) == (model.host_operations, 2)
    for name, array in ane.run(again, inputs).items():
        np.testing.assert_array_equal(array, found[name])
    assert not model.one_program


def test_tables_and_positions_computed_from_numbers_need_no_leave() -> None:
    """The way encoders count the positions of what is no padding, whose number is 1."""
    builder = GraphBuilder()
    ids = builder.input("ids", "int32", (2, 7))
    real = builder.single("cast", x=builder.single("not_equal", x=ids, y=np.int32(1)), dtype="int32")
    places = builder.single("cumsum", x=real, axis=1)
    places = builder.single("add", x=builder.single("mul", x=places, y=real), y=np.int32(1))
    rows = builder.single("add", x=builder.single("gather", x=half(4000, 16), indices=ids),
                          y=builder.single("gather", x=half(9, 16), indices=places))
    graph = builder.finish({"y": builder.single("linear", x=rows, weight=half(8, 16))})
    model = compile(graph)
    where = {entry.operation.split()[0]: entry.where for entry in model.report}
    assert where["linear"] is Where.ENGINE
    assert {name for name, place in where.items() if place is Where.HOST} >= {"gather", "cumsum", "not_equal"}
    held(model, {"ids": np.array([[3999, 2049, 7, 1, 1, 1, 1], [5, 1, 3001, 9, 11, 12, 13]], np.int32)})


def test_an_operation_kept_for_the_host_is_not_taken_apart() -> None:
    builder = GraphBuilder()
    x = builder.input("x", "fp16", (2, 40))
    order = builder.single("argsort", "order", x=builder.single("relu", x=x), axis=1)
    graph = builder.finish({"order": order, "y": builder.single("exp", x=x)})
    with pytest.raises(UnsupportedError, match="at most 32 positions"):
        compile(graph)
    model = compile(graph, allow_host=True)
    assert [entry.operation for entry in model.host_operations] == ["argsort 'order'"]
    held(model, {"x": half(2, 40)})


def test_a_model_all_of_whose_operations_are_the_hosts() -> None:
    builder = GraphBuilder()
    x = builder.input("x", "fp32", (1, 3, 5))
    graph = builder.finish({"y": builder.single("local_response_norm", "y", x=x, size=2)})
    model = compile(graph, allow_host=True)
    assert (model.programs, len(model.steps)) == ((), 1)
    held(model, {"x": half(1, 3, 5).astype(np.float32)})


def test_allowing_the_host_changes_nothing_the_engine_can_do() -> None:
    graph, _ = network(["conv", "relu", "softmax"])
    strict, lenient = compile(graph), compile(graph, allow_host=True)
    assert (strict.programs, strict.report) == (lenient.programs, lenient.report)


def test_intermediates_are_one_memory_for_all_programs() -> None:
    graph, inputs = many_inputs(40)
    model = compile(graph)
    crossing = {b.name for b in model.programs[0].outputs} & {b.name for b in model.programs[1].inputs}
    assert crossing
    with ane.open_device() as device, device.load(model) as executable:
        outputs = executable.run(inputs)
        assert [task.index for task in executable.report.tasks] == list(range(39))
        for name in crossing:
            assert executable.read(name).any()
        later = executable.submit(inputs).result(timeout=30)
        np.testing.assert_array_equal(later["total"], outputs["total"])
        with pytest.raises(ane.DeviceError, match="missing 'x3'"):
            executable.run({name: array for name, array in inputs.items() if name != "x3"})
        with pytest.raises(ane.DeviceError, match="no function 'decode'"):
            executable.run(inputs, "decode")


def test_what_is_computed_of_far_positions_is_computed_where_they_are() -> None:
    """Which class and which box one of thousands of scores is of: fp16 has not every position."""
    builder = GraphBuilder()
    scores = builder.input("scores", "fp16", (1, 6000))
    _, places = builder.add("topk", x=scores, k=40, axis=1)
    box = builder.single("floor_div", "box", x=places, y=np.int32(20))
    label = builder.single("mod", "label", x=places, y=np.int32(20))
    model = compile(builder.finish((box, label, builder.single("relu", "large", x=scores))), allow_host=True)
    given = RNG.permutation(6000)[None].astype(np.float16)
    found, best = ane.run(model, {"scores": given}), np.argsort(-given.astype(np.float32), kind="stable")[:, :40]
    assert np.array_equal(found["box"], best // 20)
    assert np.array_equal(found["label"], best % 20)
