"""Models on the macOS backend over the stand-in: within fp16 of what the simulator computes, by another string."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.device_models import ONES, compiled, draw, function, near, single
from support.h13 import layout_of
from support.random_graphs import LIMIT, draw_graph, draw_inputs, spread
from support.random_operands import TABLE

import openane as ane
from openane.compiler import Model, compile_functions
from openane.devices.macos import MacDevice, open_kind
from openane.devices.macos.graph_model import GraphModelPort
from openane.errors import GraphError
from openane.graph import Graph
from openane.ops.build import GraphBuilder

WORKER = "macos?runtime=simulated"
HERE = f"{WORKER}&worker=off"
ROUTES = (HERE, f"{HERE}&route=e5rt")


def agrees(model: Model, device: str) -> None:
    """Twice the simulator's outputs, and a report that says who computed."""
    inputs = draw(model)
    wanted = ane.run(model, inputs, "simulator")
    with ane.open_device(device) as opened, opened.load(model) as executable:
        for _ in range(2):
            near(executable.run(inputs), wanted, 0.01)
        assert "stand-in" in executable.report.tasks[0].operation
        assert executable.report.seconds > 0


@pytest.mark.parametrize("options", ["path=1", "path=2&qos=33", "path=3", "path=4", "route=e5rt"])
def test_every_way_to_evaluate(options: str) -> None:
    agrees(compiled("elementwise"), f"{HERE}&{options}")


@pytest.mark.parametrize("inject", ["row-alignment=2", "row-alignment=256", "nil=localModelPath", "equal-sizes"])
def test_other_layouts_and_habits_of_the_system(inject: str) -> None:
    agrees(compiled("conv"), f"{HERE}&inject={inject}")


@dataclass
class Uncompiled:
    """A graph in the place of a compiled model: the device looks at nothing else."""

    graph: Graph
    name: str = "main"
    programs: tuple[Any, ...] = ()
    steps: tuple[Any, ...] = ()
    states: tuple[Any, ...] = ()
    inputs: list[GraphModelPort] = field(default_factory=list)
    outputs: list[GraphModelPort] = field(default_factory=list)

    def __post_init__(self) -> None:
        for values, ports in ((self.graph.inputs, self.inputs), (self.graph.outputs, self.outputs)):
            for value in values:
                n, c, d, h, w = (1,) * (5 - len(value.shape)) + value.shape
                ports.append(GraphModelPort(value.name, value.shape, value.dtype, layout_of((n, c, d, h, w))))
        self.functions = {self.name: self}


@pytest.fixture(scope="module")
def device() -> Any:
    with open_kind("", {"runtime": "simulated"}) as opened:
        yield opened


@pytest.mark.parametrize("first", range(0, len(TABLE), 29))
def test_random_graphs_of_every_operation(device: MacDevice, first: int) -> None:
    operations = sorted(TABLE)
    for seed, op in enumerate(operations[first:first + 29], first):
        try:
            graph = draw_graph(seed, TABLE, 1 + seed % 3, op)
        except GraphError:
            continue
        inputs = draw_inputs(graph, seed)
        with device.load(Uncompiled(graph)) as executable:
            found = executable.run(inputs)
        for name, (exact, difference) in spread(graph, inputs).items():
            within = np.abs(exact.astype(np.float64)) < LIMIT
            with np.errstate(all="ignore"):
                apart = np.abs(np.where(within, found[name].astype(np.float64) - exact, 0))
                scale = np.nanmax(np.abs(np.where(within, exact, 0)), initial=0)
            assert np.nanmax(apart, initial=0) <= 4 * difference + 0.02 + 0.004 * scale, (seed, op, name)


def test_whole_numbers_and_truth_values_pass_exactly(device: MacDevice) -> None:
    builder = GraphBuilder()
    table = builder.input("table", "fp16", (40000, 1))
    rows, flag, byte = (builder.input(*port) for port in
                        (("rows", "int32", (3,)), ("flag", "bool", (3, 1)), ("byte", "int8", (2, 3))))
    chosen = builder.single("gather", x=table, indices=rows, axis=0)
    graph = builder.finish({
        "chosen": builder.single("select", cond=flag, a=chosen, b=np.float16(-1)), "same": byte,
        "again": builder.single("floor_div", x=rows, y=np.int32(2)), "not": builder.single("logical_not", x=flag),
        "largest": builder.single("reduce_argmax", x=chosen, axis=0, keep_dims=False)})
    values = (np.arange(40000) % 2048).astype(np.float16)[:, None]
    inputs = {"table": values, "rows": np.array([39999, 2, 30000], np.int64), "flag": np.array([[1], [0], [1]], bool),
              "byte": np.arange(-3, 3, dtype=np.int8).reshape(2, 3)}
    with device.load(Uncompiled(graph)) as executable:
        found = executable.run(inputs)
        assert found["chosen"].tolist() == [[39999 % 2048], [-1], [30000 % 2048]]
        assert found["same"].tolist() == inputs["byte"].tolist()
        assert (found["again"].dtype, found["again"].tolist()) == (np.int32, [19999, 1, 15000])
        assert (found["not"].dtype, found["not"].tolist()) == (np.bool_, [[False], [True], [False]])
        assert found["largest"].tolist() == [int(np.argmax(values[[39999, 2, 30000]]))]
        with pytest.raises(ane.DeviceError, match=r"rows holds 70000; the runtime takes it as uint16, 0 to 65535"):
            executable.run(inputs | {"rows": np.array([1, 2, 70000])})
        with pytest.raises(ane.DeviceError, match="is int32; it was given as float64"):
            executable.run(inputs | {"rows": np.ones(3)})


def test_a_whole_number_that_may_have_been_cut_off_is_refused(device: MacDevice) -> None:
    builder = GraphBuilder()
    x = builder.input("x", "int32", (3,))
    with device.load(Uncompiled(builder.finish({"y": builder.single("add", x=x, y=x)}))) as executable:
        assert executable.run({"x": np.array([3, -4, 16383])})["y"].tolist() == [6, -8, 32766]
        for wrong in (20000, -20000):
            with pytest.raises(ane.DeviceError, match="'y' is int32, but the runtime gives int16 and it reached"):
                executable.run({"x": np.array([0, wrong, 0])})


def test_scalars_and_outputs_that_are_inputs(device: MacDevice) -> None:
    builder = GraphBuilder()
    x = builder.input("x", "fp16", (4,))
    total = builder.single("reduce_sum", x=x, axes=[0], keep_dims=False)
    with device.load(Uncompiled(builder.finish({"total": total, "x_again": x, "twice": total}))) as executable:
        found = executable.run({"x": np.arange(4, dtype=np.float16)})
    assert {name: (values.shape, values.tolist()) for name, values in found.items()} == {
        "total": ((), 6), "x_again": ((4,), [0, 1, 2, 3]), "twice": ((), 6)}


@pytest.mark.parametrize("name", [*ROUTES, WORKER])
def test_functions_share_states(name: str, tmp_path: Path) -> None:
    compiled = compile_functions([function("sum", 'add(x = old, y = x)[name = string("new")]'),
                                  function("product", 'mul(x = old, y = x)[name = string("new")]')])
    compiled.save(tmp_path / "m.ane")
    with ane.open_device(name) as opened, opened.load(Model.load(tmp_path / "m.ane")) as executable:
        found = [float(executable.run({"x": ONES * k}, which)["y"].max()) for k, which in
                 ((3, None), (2, "product"), (1, "sum"), (4, "product"))]
        assert found == [6, 12, 14, 56]
        assert (executable.read("total") == 28).all()
        executable.write("total", np.full((1, 16), 5.0), (0, 2))
        executable.patch("total", np.full(16, 7.0), (0, 3, 0, 0))
        assert executable.run({"x": ONES}, "sum")["y"][0, :4, 0, 0].tolist() == [58, 58, 12, 16]


def test_models_share_memory_pipelines_run_and_submissions_keep_their_order() -> None:
    first, second = (ane.compile(single(op, (1, 8, 1, 16))) for op in ("square", "relu"))
    with ane.open_device(HERE) as opened:
        with opened.load(first) as one, opened.load(second) as two:
            memory = opened.allocate(max(port.layout.size for port in (*first.outputs, *second.inputs)))
            one.bind("y", memory)
            two.bind("x", memory)
            one.run({"x": ONES * -3})
            assert (two.read("x") == 9).all()
            waiting = [one.submit({"x": ONES * k}) for k in range(6)]
            assert [float(each.result()["y"].max()) for each in waiting] == [0, 1, 4, 9, 16, 25]
            with pytest.raises(ane.DeviceError, match="takes 256 bytes of uint8, not 8 of uint8"):
                one.bind("y", opened.allocate(8))
        with opened.pipeline([first, second]) as chain:
            assert [float(chain.run({"x": ONES * k})["y"].max()) for k in (2, 3)] == [4, 9]


def test_engine_programs_are_refused_in_words() -> None:
    model = ane.compile(single("relu", (1, 8, 1, 16)))
    with ane.open_device(HERE) as opened:
        for program in (model.program, ane.verify(model.program)):
            if program is not None:
                with pytest.raises(ane.DeviceError, match="runs models by their graphs"):
                    opened.load(program)
        with pytest.raises(ane.DeviceError, match="not str"):
            opened.load("model.ane")
        assert opened.info.takes == ("model",)
        assert not opened.info.engine
