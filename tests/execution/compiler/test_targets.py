"""One model for several generations: compiled, saved in one bundle, and run by a simulated device of each."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.host_operations import row_means
from support.sealing import reseal

import openane as ane
from openane.chips import compiled_generations
from openane.compiler import Model, compile, compile_for, compile_functions
from openane.formats import read_hwx
from openane.formats.bundled import bundled_programs
from openane.graph import Graph
from openane.ops.build import GraphBuilder

EVERY = compiled_generations()
ROUNDS = 150
VALUES = [None, 0, -1, 5, 2 ** 40, 2 ** 70, "", "h14", "h99", [], {}, 1.5, float("nan"), True, [1, 2, 3], "main"]


def network(scale: float = 1.0, name: str = "main", size: int = 16) -> Graph:
    """A host operation between two engine programs, and weights."""
    rng = np.random.default_rng(1)
    builder = GraphBuilder()
    x = builder.input("x", "fp16", (4, size))
    rows = row_means(builder, builder.single("tanh", x=x), "rows")
    weight = (rng.standard_normal((size, size)) * scale).astype(np.float16)
    graph = builder.finish({"y": builder.single("linear", "y", x=builder.single("add", x=x, y=rows), weight=weight)})
    return Graph(graph.inputs, graph.nodes, graph.outputs, name, graph.metadata)


INPUTS = {"x": np.random.default_rng(2).standard_normal((4, 16)).astype(np.float16)}


@pytest.fixture(scope="module")
def model() -> Model:
    return compile_for(network(), "all", allow_host=True)


@pytest.fixture
def bundle(model: Model, tmp_path: Path) -> Path:
    model.save(tmp_path / "m.ane")
    return tmp_path / "m.ane"


def run_on(model: Model, chip: str) -> np.ndarray:
    """What a simulated device of the generation makes of the model."""
    with ane.open_device(f"simulator:{chip}?arithmetic=exact") as device, device.load(model) as executable:
        found: np.ndarray = executable.run(INPUTS)["y"]
        return found


def test_a_device_of_each_generation_runs_its_own_programs_from_one_bundle(bundle: Path) -> None:
    loaded = Model.load(bundle)
    assert tuple(loaded.targets) == EVERY
    for chip in EVERY:
        alone = compile(network(), chip, allow_host=True)
        assert loaded.targets[chip].programs == alone.programs
        assert {program.chip for program in loaded.targets[chip].programs} == {chip}
        np.testing.assert_array_equal(run_on(loaded, chip), run_on(alone, chip))
    reference = INPUTS["x"] + np.tanh(INPUTS["x"].astype(np.float32)).mean(1, keepdims=True)
    weight = np.random.default_rng(1).standard_normal((16, 16)).astype(np.float16).astype(np.float32)
    for chip in EVERY:
        np.testing.assert_allclose(run_on(loaded, chip), reference @ weight.T, atol=0.03, rtol=0.01)


def test_a_bundle_gives_back_what_was_saved(tmp_path: Path) -> None:
    bundle = tmp_path / "m.ane"
    model = compile_for(whole_network(), "all")
    model.save(bundle)
    loaded = Model.load(bundle)
    assert loaded == model
    assert loaded.graph is loaded.targets["h16"].graph
    loaded.save(bundle)
    assert Model.load(bundle) == model


def test_source_graph_weights_and_equal_constants_are_stored_once(bundle: Path, tmp_path: Path) -> None:
    def size(path: Path) -> int:
        return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())

    graph = network(size=512)
    compile(graph, "h15", allow_host=True).save(tmp_path / "one.ane")
    compile_for(graph, ["h15", "h16", "h17", "h18"], allow_host=True).save(tmp_path / "four.ane")
    weights = 512 * 512 * 2
    assert size(tmp_path / "one.ane") > 2 * weights  # of the graph and of the program
    assert size(tmp_path / "four.ane") < size(tmp_path / "one.ane") + weights
    parts = list((tmp_path / "four.ane" / "programs").glob("*.part"))
    assert parts
    assert max(file.stat().st_size for file in parts) < weights
    shared = Model.load(tmp_path / "four.ane")
    assert shared.targets["h17"].programs[-1].constants is shared.targets["h18"].programs[-1].constants
    held = [read_hwx(data) for _, data in bundled_programs(tmp_path / "four.ane")]
    assert held == [program for each in shared.targets.values() for program in each.programs]


def test_what_a_bundle_lacks_is_said_with_the_command_that_adds_it(tmp_path: Path) -> None:
    compile_for(network(), "m1, m2", allow_host=True).save(tmp_path / "two.ane")
    loaded = Model.load(tmp_path / "two.ane")
    with ane.open_device("simulator:h16") as device, pytest.raises(ane.DeviceError) as refused:
        device.load(loaded)
    assert "simulator is h16" in str(refused.value)
    assert "compiled for h13, h14" in str(refused.value)
    assert "ane compile MODEL --target h13,h14,h16 -o NAME.ane" in str(refused.value)
    with pytest.raises(ane.UnsupportedError, match="limit h13, h14, found h18"):
        loaded.for_target("h18")
    assert loaded.for_target("h14").target == "h14"


def test_a_device_of_any_generation_takes_the_first_target() -> None:
    model = compile_for(network(), ["m4", "m1"], allow_host=True)
    assert model.target == "h16"
    np.testing.assert_array_equal(ane.run(model, INPUTS, "simulator?arithmetic=exact")["y"], run_on(model, "h16"))


def test_a_bundle_of_one_target_is_as_it_was(tmp_path: Path) -> None:
    compile(network(), "h14", allow_host=True).save(tmp_path / "a.ane")
    compile_for(network(), "m2,a15", allow_host=True).save(tmp_path / "b.ane")  # two chips of one generation
    files = [{path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
             for folder in (tmp_path / "a.ane", tmp_path / "b.ane")]
    assert files[0] == files[1]
    assert json.loads((tmp_path / "a.ane" / "manifest.json").read_text())["version"] == 2
    assert (tmp_path / "a.ane" / "routes.json").is_file()


def test_several_functions_for_several_targets(tmp_path: Path) -> None:
    graphs = [network(), network(2.0, "other")]
    first, second = (compile_functions(graphs, target, allow_host=True) for target in ("h13", "h17"))
    first.with_targets([second]).save(tmp_path / "m.ane")
    loaded = Model.load(tmp_path / "m.ane")
    for chip in ("h13", "h17"):
        with ane.open_device(f"simulator:{chip}?arithmetic=exact") as device, device.load(loaded) as executable:
            twice, once = (executable.run(INPUTS, name)["y"] for name in ("other", "main"))
        np.testing.assert_allclose(twice, 2 * once, atol=2.0 ** -9)


def test_models_that_differ_are_not_put_together(model: Model) -> None:
    other = compile(network(size=32), "h14", allow_host=True)
    alone = model.for_target("h13")
    with pytest.raises(ane.GraphError, match="other functions or ports"):
        alone.with_targets([other])
    with pytest.raises(ane.GraphError, match="twice for h13"):
        alone.with_targets([alone])


def test_no_single_file_holds_several_targets(model: Model, tmp_path: Path) -> None:
    with pytest.raises(ane.GraphError, match="6 targets: save a bundle"):
        model.save(tmp_path / "m.hwx")


def test_new_weights_reach_the_programs_of_every_target(bundle: Path) -> None:
    loaded = Model.load(bundle)
    name = next(value.name for node in loaded.graph.nodes for value in node.values() if value.shape == (16, 16)
                and value.constant)
    weight = (np.eye(16) * 3).astype(np.float16)
    patched = loaded.patch({name: weight}).model
    assert tuple(patched.targets) == EVERY
    for chip in EVERY:
        with ane.open_device(f"simulator:{chip}?arithmetic=exact") as device, device.load(loaded) as executable:
            executable.update_constants(patched)
            updated = executable.run(INPUTS)["y"]
        np.testing.assert_array_equal(updated, run_on(patched, chip))
        assert not np.array_equal(updated, run_on(loaded, chip))


def test_a_pipeline_takes_its_own_target_of_every_stage() -> None:
    model = compile_for(network(), ["h13", "h16"], allow_host=True)
    second = compile_for(whole_network(), ["h13", "h16"], allow_host=True)
    expected = None
    for chip in ("h13", "h16"):
        with ane.open_device(f"simulator:{chip}?arithmetic=exact") as device, \
                device.pipeline([model, second]) as stages:
            found = stages.run(INPUTS)
        expected = found if expected is None else expected
        np.testing.assert_allclose(found["z"], expected["z"], rtol=0.01, atol=0.5)


def whole_network() -> Graph:
    """One engine program, from y to z."""
    builder = GraphBuilder()
    y = builder.input("y", "fp16", (4, 16))
    return builder.finish({"z": builder.single("linear", "z", x=y, weight=np.eye(16, dtype=np.float16))})


def test_targets_are_named_once_and_known() -> None:
    with pytest.raises(ane.UnsupportedError, match="at least one"):
        compile_for(network(), [])
    with pytest.raises(ane.UnsupportedError, match="known by name only"):
        compile_for(network(), "m1,a12", allow_host=True)
    with pytest.raises(ane.UnsupportedError, match="no machine, chip or generation"):
        compile_for(network(), "m1,,m4")


def places(document: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    if isinstance(document, dict | list):
        for key, value in document.items() if isinstance(document, dict) else enumerate(document):
            yield from places(value, (*path, key))


def test_changed_manifests_raise_nothing_but_typed_errors(tmp_path: Path) -> None:
    bundle = tmp_path / "m.ane"
    compile_for(network(), "h15,h16", allow_host=True).save(bundle)
    manifest = bundle / "manifest.json"
    text = manifest.read_text()
    rng = random.Random(0)
    shared = [path for path in places(json.loads(text)) if path and path[0] in ("shared", "programs", "version")]
    assert len(shared) > 5
    refused = 0
    for number in range(ROUNDS):
        document = json.loads(text)
        path = rng.choice(shared if number % 2 else [path for path in places(document) if path])
        inner = document
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = rng.choice(VALUES)
        manifest.write_text(json.dumps(document))
        reseal(bundle)
        try:
            for target in Model.load(bundle).targets.values():
                ane.run(target, INPUTS)
            list(bundled_programs(bundle))
        except ane.AneError:
            refused += 1
    assert refused > ROUNDS // 4


@pytest.mark.parametrize("name", ["programs/3.part", "programs/0.hwx", "routes/h16.json"])
def test_cut_files_are_refused(name: str, tmp_path: Path) -> None:
    bundle = tmp_path / "m.ane"
    compile_for(network(), "h15,h16", allow_host=True).save(bundle)
    data = (bundle / name).read_bytes()
    (bundle / name).write_bytes(data[:len(data) // 2])
    with pytest.raises(ane.FormatError, match=f"{name} was changed"):
        Model.load(bundle)
    reseal(bundle)
    with pytest.raises(ane.AneError):
        Model.load(bundle).patch({}) if name.startswith("routes") else Model.load(bundle)
    (bundle / name).unlink()
    with pytest.raises(ane.FormatError, match=f"{name} cannot be read"):
        Model.load(bundle)
    reseal(bundle)
    if not name.startswith("routes"):
        with pytest.raises(ane.FormatError, match=name):
            Model.load(bundle)
