"""One model in several shapes: a function for each, weights once on disk, chosen and padded when it runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import openane as ane
from openane.compiler import Model
from openane.errors import DeviceError, GraphError
from openane.formats.bundled import shared_bytes
from openane.formats.common import common_runs
from openane.graph import Graph
from openane.graph.mil import print_mil
from openane.importers.alternatives import each_shape, load_shapes
from openane.ops.build import GraphBuilder
from openane.ops.evaluate import evaluate

RNG = np.random.default_rng(8)
WIDTH = 64
TABLE, QUERY, KEY, VALUE = (RNG.uniform(-0.3, 0.3, shape).astype(np.float16)
                            for shape in ((50, WIDTH), (WIDTH, WIDTH), (WIDTH, WIDTH), (4 * WIDTH, WIDTH)))


def encoder(length: int, name: str = "main", mask: str = "attention_mask") -> Graph:
    """One layer that looks at the positions of which the mask is 1."""
    builder = GraphBuilder(name)
    ids = builder.input("ids", "int32", (1, length))
    kept = builder.input(mask, "fp16", (1, length))
    x = builder.single("gather", x=TABLE, indices=ids, axis=0)
    hidden = builder.single("mul", x=builder.single("sub", x=kept, y=np.float16(1)), y=np.float16(2e4))
    scores = builder.single("matmul", x=builder.single("linear", x=x, weight=QUERY),
                            y=builder.single("linear", x=x, weight=KEY), transpose_y=True)
    scores = builder.single("softmax", x=builder.single("add", x=scores, y=builder.single(
        "expand_dims", x=hidden, axes=[1])), axis=-1)
    return builder.finish({"states": builder.single("matmul", x=scores, y=builder.single("linear", x=x, weight=VALUE))})


def shaped(padding: dict[str, float] | None = None, mask: str = "attention_mask") -> Model:
    return ane.compile_shapes([encoder(n, f"main_{n}", mask) for n in (16, 32, 64)], padding)


def words(length: int) -> dict[str, np.ndarray]:
    return {"ids": RNG.integers(0, 50, (1, length)).astype(np.int32),
            "attention_mask": np.ones((1, length), np.float16)}


@pytest.mark.parametrize("length", [1, 15, 16, 17, 33, 64])
def test_the_smallest_function_that_holds_the_inputs_runs(length: int) -> None:
    model, inputs = shaped(), words(length)
    with ane.open_device() as device, device.load(model) as loaded:
        found = loaded.run(inputs)["states"]
        tasks = len(loaded.report.tasks)
        np.testing.assert_array_equal(loaded.submit(inputs).result()["states"], found)
    wanted = evaluate(encoder(length), inputs)["states"]
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, atol=2e-3)
    chosen = model.functions[f"main_{next(n for n in (16, 32, 64) if length <= n)}"]
    assert tasks == sum(len(program.tasks) for program in chosen.programs)


def test_nothing_is_padded_that_may_not_be() -> None:
    with pytest.raises(DeviceError, match=r"no function takes ids 1x65.*are .*ids 1x64.*padded is ids, attention"):
        ane.run(shaped(), words(65))
    inputs = {"ids" if name == "ids" else "kept": array for name, array in words(16).items()}
    assert ane.run(shaped(mask="kept"), inputs)["states"].shape == (1, 16, 4 * WIDTH)
    with pytest.raises(DeviceError, match="no input is padded"):
        ane.run(shaped(mask="kept"), {name: array[:, :9] for name, array in inputs.items()})
    padded = shaped({"ids": 0, "kept": 0}, "kept")
    assert ane.run(padded, {name: array[:, :9] for name, array in inputs.items()})["states"].shape == (1, 9, 4 * WIDTH)


def test_graphs_of_other_models_are_refused() -> None:
    with pytest.raises(GraphError, match="inputs of 'other' differ"):
        ane.compile_shapes([encoder(16), encoder(16, "other", "kept")])
    with pytest.raises(GraphError, match="padding is given for 'x'"):
        ane.compile_shapes([encoder(16)], {"x": 0})


def test_a_bundle_holds_equal_weights_once(tmp_path: Path) -> None:
    model = shaped()
    model.save(tmp_path / "model.ane")
    size = sum(file.stat().st_size for file in (tmp_path / "model.ane" / "programs").iterdir())
    replace(model, padding=None).save(tmp_path / "apart.ane")
    apart = sum(file.stat().st_size for file in (tmp_path / "apart.ane" / "programs").iterdir())
    programs = [program for each in model.functions.values() for program in each.programs]
    assert apart - size == sum(shared_bytes(programs)) > VALUE.nbytes
    again = Model.load(tmp_path / "model.ane")
    assert again.padding == {"ids": 0, "attention_mask": 0}
    assert [each.programs for each in again.functions.values()] == [each.programs for each in model.functions.values()]
    inputs = words(20)
    np.testing.assert_array_equal(ane.run(again, inputs)["states"], ane.run(model, inputs)["states"])


def test_a_file_is_loaded_once_for_every_shape(tmp_path: Path) -> None:
    text, weights = print_mil(encoder(16))
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / "weight.bin").write_bytes(weights)
    (tmp_path / "model.mil").write_text(text)
    [graph] = load_shapes(tmp_path / "model.mil", {"ids": (1, (16,)), "attention_mask": (1, (16,))})
    assert graph.name == "main_16"


def test_alternatives_change_together() -> None:
    assert each_shape({"x": (1, 3, (8, 9), (4, 5)), "y": (2, (8, 9))}) == {
        "8x4": {"x": (1, 3, 8, 4), "y": (2, 8)}, "9x5": {"x": (1, 3, 9, 5), "y": (2, 9)}}
    assert each_shape({"x": (1, 2)}) == {"": {"x": (1, 2)}}
    with pytest.raises(GraphError, match="'x' 2, 'y' 3"):
        each_shape({"x": ((1, 2),), "y": ((1, 2, 3),)})
    with pytest.raises(GraphError, match="alternative 8 is there twice"):
        each_shape({"x": ((8, 8),)})


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 5000)), max_size=8), st.integers(0, 99))
def test_common_runs_are_common(parts: list[tuple[bool, int]], seed: int) -> None:
    random = np.random.default_rng(seed)
    second = random.bytes(30000)
    first = b"".join(second[3 * size:4 * size] if common else random.bytes(size) for common, size in parts)
    end = 0
    for run in common_runs(first, second):
        assert first[run.a:run.a + run.size] == second[run.b:run.b + run.size]
        assert run.a >= end
        end = run.a + run.size
    assert [run.size for run in common_runs(second, second)] == [30000]
