"""States persist between the runs of an executable; functions of one model share them and their weights."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from support.sealing import reseal

import openane as ane
from openane.compiler import Model, compile, compile_functions
from openane.compiler.states import reference
from openane.errors import GraphError
from openane.graph import Graph
from openane.graph.mil import parse_mil
from openane.ops.build import GraphBuilder

SHAPE = (1, 8, 1, 16)
T = "tensor<fp16, [1, 8, 1, 16]>"


def program(body: str, name: str = "main", result: str = "y", inputs: str = f"{T} x, state<{T}> total") -> Graph:
    return parse_mil(f"program(1.3)\n{{\n  func {name}<ios18>({inputs}) {{\n{body}\n  }} -> ({result});\n}}\n")


SUM = f"""    {T} old = read_state(input = total)[name = string("old")];
    {T} new = add(x = old, y = x)[name = string("new")];
    write_state(data = new, input = total)[name = string("w")];
    {T} again = read_state(input = total)[name = string("again")];
    {T} y = relu(x = again)[name = string("y")];"""
ONES = np.ones(SHAPE, np.float16)


def test_a_state_is_kept_between_runs_and_written_by_name(tmp_path: Path) -> None:
    model = compile(program(SUM))
    assert [(state.name, state.next) for state in model.states] == [("total", "total_next")]
    assert [port.name for port in (*model.inputs, *model.outputs)] == ["x", "y"]
    model.save(tmp_path / "m.ane")
    for subject in (model, Model.load(tmp_path / "m.ane")):
        with ane.open_device() as device, device.load(subject) as executable:
            assert [float(executable.run({"x": ONES})["y"].max()) for _ in range(3)] == [1, 2, 3]
            assert (executable.read("total") == 3).all()
            executable.write("total", np.full((1, 16), -9.0), (0, 2))
            assert executable.run({"x": ONES})["y"][0, :, 0, 0].tolist() == [4, 4, 0, 4, 4, 4, 4, 4]
            assert executable.read("total")[0, 2, 0, 0] == -8
            with pytest.raises(ane.DeviceError, match="does not take values of shape"):
                executable.write("total", np.zeros(7))
            with pytest.raises(ane.DeviceError, match="no buffer is called 'sum'"):
                executable.read("sum")
    assert (ane.run(model, {"x": ONES})["y"] == 1).all()  # a new executable starts anew
    assert (reference(Model.load(tmp_path / "m.ane").graph, {"x": ONES})["y"] == 1).all()


def test_reads_see_what_was_written_before_them() -> None:
    order = f"""    {T} before = read_state(input = total)[name = string("before")];
    {T} mid = coreml_update_state(state = total, value = x)[name = string("mid")];
    {T} twice = add(x = mid, y = mid)[name = string("twice")];
    write_state(data = twice, input = total)[name = string("w")];
    {T} y = sub(x = mid, y = before)[name = string("y")];"""
    with ane.open_device() as device, device.load(compile(program(order))) as executable:
        assert (executable.run({"x": ONES})["y"] == 1).all()
        assert (executable.run({"x": ONES})["y"] == -1).all()


def test_a_state_that_is_only_read_and_one_that_is_an_output() -> None:
    read = f'    {T} y = read_state(input = total)[name = string("y")];\n' \
           f'    {T} z = add(x = y, y = x)[name = string("z")];'
    with ane.open_device() as device, device.load(compile(program(read, result="y, z"))) as executable:
        executable.write("total", 2.5)
        for _ in range(2):
            found = executable.run({"x": ONES})
            assert (found["y"] == 2.5).all()
            assert (found["z"] == 3.5).all()


def test_a_run_that_fails_leaves_states_alone() -> None:
    with ane.open_device() as device, device.load(compile(program(SUM))) as executable:
        executable.run({"x": ONES})
        with pytest.raises(ane.DeviceError, match="must have shape"):
            executable.run({"x": ONES[0]})
        assert (executable.read("total") == 1).all()


@pytest.mark.parametrize(("body", "message"), [
    (f'    {T} y = relu(x = total)[name = string("y")];', "uses the state 'total' as a tensor"),
    (f'    {T} y = read_state(input = x)[name = string("y")];', "takes one state"),
    (f'    write_state(data = x, input = x)[name = string("w")];\n    {T} y = relu(x = x)[name = string("y")];',
     "takes one state"),
])
def test_misused_states_are_refused(body: str, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        compile(program(body))


def two_functions(weight: np.ndarray) -> list[Graph]:
    """`prefill` sets the state to a product of x, `decode` adds it to the same product."""
    graphs = []
    for name in ("prefill", "decode"):
        builder = GraphBuilder(name, {"state:cache": "true", "role": name})
        x, state = builder.input("x", "fp16", (4, 64)), builder.input("cache", "fp16", (4, 64))
        product = builder.single("linear", x=x, weight=builder.constant(weight, "weight"))
        graph = builder.finish({"y": product})
        read = parse_mil('program(1.3)\n{\n func main<ios18>(state<tensor<fp16, [4, 64]>> cache, '
                         'tensor<fp16, [4, 64]> y) {\n  tensor<fp16, [4, 64]> old = read_state(input = cache)'
                         '[name = string("old")];\n  write_state(data = y, input = cache)[name = string("w")];\n'
                         '  tensor<fp16, [4, 64]> z = add(x = old, y = y)[name = string("z")];\n } -> (z);\n}\n')
        inner = {id(read.inputs[0]): state, id(read.inputs[1]): graph.outputs[0]}
        from openane.passes.rewrite import substituted
        nodes = (*graph.nodes, *(substituted(node, inner) for node in read.nodes))
        outputs = read.outputs if name == "decode" else graph.outputs
        graphs.append(Graph(graph.inputs, nodes, outputs, name, graph.metadata))
    return graphs


def test_functions_share_states_and_weights(tmp_path: Path) -> None:
    weight = np.random.default_rng(1).uniform(-0.2, 0.2, (64, 64)).astype(np.float16)
    model = compile_functions(two_functions(weight))
    assert list(model.functions) == ["prefill", "decode"]
    model.save(tmp_path / "m.ane")
    again = Model.load(tmp_path / "m.ane")
    assert list(again.functions) == ["prefill", "decode"]
    assert again.functions["decode"].graph.metadata["role"] == "decode"
    size = (tmp_path / "m.ane" / "weights" / "weight.bin").stat().st_size
    assert weight.nbytes < size < 1.5 * weight.nbytes
    x = np.random.default_rng(2).uniform(-1, 1, (4, 64)).astype(np.float16)
    product = x.astype(np.float32) @ weight.astype(np.float32).T
    for subject in (model, again):
        with ane.open_device() as device, device.load(subject) as executable:
            np.testing.assert_allclose(executable.run({"x": x})["y"], product, atol=1e-2)
            np.testing.assert_allclose(executable.run({"x": x}, "decode")["z"], 2 * product, atol=2e-2)
            with pytest.raises(ane.DeviceError, match="prefill, decode"):
                executable.run({"x": x}, "encode")


def test_functions_must_agree() -> None:
    graphs = two_functions(np.zeros((64, 64), np.float16))
    with pytest.raises(GraphError, match="a name of their own"):
        compile_functions([graphs[0], graphs[0]])
    other = program(SUM.replace("total", "cache"), "other", inputs=f"{T} x, state<{T}> cache")
    with pytest.raises(GraphError, match=r"state 'cache' is fp16 \[4, 64\] in function 'prefill'"):
        compile_functions([graphs[0], other])


def test_manifests_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    compile(program(SUM)).save(tmp_path / "m.ane")
    manifest = tmp_path / "m.ane" / "manifest.json"
    document = json.loads(manifest.read_text())
    for change in ({"next": "nowhere"}, {"next": 3}, {"port": None}):
        broken = json.loads(manifest.read_text())
        broken["functions"][0]["states"][0] |= change
        manifest.write_text(json.dumps(broken))
        reseal(tmp_path / "m.ane")
        with pytest.raises(ane.FormatError):
            Model.load(tmp_path / "m.ane")
        manifest.write_text(json.dumps(document))
        reseal(tmp_path / "m.ane")
    Model.load(tmp_path / "m.ane")
