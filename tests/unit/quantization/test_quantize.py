"""Layers are found, take their forms, and lose what is said."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import openane as ane
from openane.chips.weight_forms import WeightForm
from openane.errors import FormatError, GraphError, UnsupportedError
from openane.graph import Graph
from openane.ops.build import GraphBuilder
from openane.ops.drawn_inputs import drawn
from openane.ops.evaluate import evaluate
from openane.quantization import read_samples
from openane.quantization.choosing import Step, choose, steps_of
from openane.quantization.forms import StoredWeight, store
from openane.quantization.layers import Layer, layers_of
from openane.quantization.measuring import relative

RANDOM = np.random.default_rng(0)


def weight(*shape: int, size: float = 0.05) -> np.ndarray:
    return (RANDOM.standard_normal(shape) * size).astype(np.float16)


def network() -> Graph:
    """Two convolutions, one of stride 2, and a linear layer; a third convolution too small to compress."""
    b = GraphBuilder("network")
    x = b.single("conv", "first", x=b.input("x", "fp16", (1, 16, 8, 8)), weight=weight(32, 16, 3, 3), pad_type="same")
    x = b.single("conv", "small", x=b.single("relu", x=x), weight=weight(32, 32, 1, 1, size=0.2))
    x = b.single("conv", "second", x=x, weight=weight(32, 32, 3, 3), pad_type="same", strides=(2, 2))
    x = b.single("linear", "last", x=b.single("reshape", x=x, shape=(1, 512)), weight=weight(40, 512))
    return b.finish({"y": x})


def encoder() -> Graph:
    """A table whose rows are looked up, and which, turned round, is the last product's weight: one tensor."""
    b = GraphBuilder("encoder")
    table = b.constant(weight(100, 32, size=1.0), "table")
    ids = b.input("ids", "int32", (1, 6))
    x = b.single("gather", "words", x=table, indices=ids, axis=0)
    mask = b.single("cast", x=b.input("attention_mask", "int32", (1, 6)), dtype="fp16")
    x = b.single("mul", x=x, y=b.single("reshape", x=mask, shape=(1, 6, 1)))
    return b.finish({"scores": b.single("matmul", "head", x=x, y=table, transpose_y=True)})


@pytest.mark.parametrize("form", WeightForm)
def test_the_graph_computes_what_its_errors_say(form: WeightForm) -> None:
    graph = network()
    sample = drawn(graph)
    found = ane.quantize(graph, form, samples=sample)
    assert [layer.name for layer in found.layers if layer.form is form] == ["first", "second", "last"]
    found.graph.verify()
    error = relative(evaluate(found.graph, sample)["y"], evaluate(graph, sample)["y"])
    assert found.error == pytest.approx(error, rel=0.02)
    assert found.samples == "given"
    assert found.after < found.before
    assert found.before - found.after == sum(layer.before - layer.after for layer in found.layers)


def test_a_shared_weight_is_one_layer_whatever_reads_it() -> None:
    found = ane.quantize(encoder(), "int8")
    [layer] = found.layers
    assert (layer.name, layer.shape, layer.form) == ("words", (100, 32), WeightForm.INT8)
    assert [node.op for node in found.graph.nodes].count("constexpr_affine_dequantize") == 1


def test_weights_that_are_computed_from_constants_count() -> None:
    b = GraphBuilder("turned")
    turned = b.single("transpose", x=b.constant(weight(64, 96), "kept"), perm=(1, 0))
    graph = b.finish({"y": b.single("matmul", x=b.input("x", "fp16", (4, 96)), y=turned)})
    [layer] = ane.quantize(graph).layers
    assert layer.shape == (96, 64)


def test_what_is_compressed_already_stays() -> None:
    once = ane.quantize(network(), "palette4")
    again = ane.quantize(once.graph, "int8")
    assert again.layers == ()
    assert again.after == once.after


def test_small_weights_stay_and_the_limit_is_said() -> None:
    assert len(ane.quantize(network(), least=1).layers) == 4
    assert ane.quantize(network(), least=10 ** 6).layers == ()


def test_weights_that_are_nothing_or_no_numbers_stay() -> None:
    b = GraphBuilder("odd")
    x = b.input("x", "fp16", (1, 64))
    infinite = weight(64, 64)
    infinite[3, 5] = np.inf
    zeros = np.zeros((64, 64), np.float16)
    graph = b.finish({"y": b.single("linear", x=x, weight=infinite), "z": b.single("linear", x=x, weight=zeros)})
    assert layers_of(graph, 1) == []


@pytest.mark.parametrize("limit", [0.2, 0.03, 0.005])
def test_auto_stays_within_the_error(limit: float) -> None:
    graph = network()
    found = ane.quantize(graph, "auto", max_error=limit)
    sample = drawn(graph)
    assert relative(evaluate(found.graph, sample)["y"], evaluate(graph, sample)["y"]) <= limit
    if limit == 0.2:
        assert WeightForm.PALETTE4 in found.forms
        assert found.after < ane.quantize(graph, "int8").after


def test_one_form_with_an_error_leaves_layers_out() -> None:
    graph = network()
    all_of_them = ane.quantize(graph, "palette4")
    some = ane.quantize(graph, "palette4", max_error=all_of_them.error / 1.5)
    assert some.error <= all_of_them.error / 1.5
    assert 0 < sum(layer.form is not None for layer in some.layers) < 3


def test_auto_leaves_out_zeros_that_are_there() -> None:
    """Of a weight with few numbers that are not 0 nothing is lost."""
    few = np.where(np.random.default_rng(1).random((64, 64)) < 0.1, weight(64, 64), np.float16(0))
    b = GraphBuilder("few")
    graph = b.finish({"y": b.single("linear", x=b.input("x", "fp16", (2, 64)), weight=few)})
    found = ane.quantize(graph, "auto", max_error=0.0)
    assert found.forms == (WeightForm.SPARSE,)
    assert found.error == 0


def stored(size: int, form: WeightForm = WeightForm.INT8) -> StoredWeight:
    """A stand-in of about `size` bytes."""
    return store(form, weight(max(size // 8, 1), 8), 0)


@given(costs=st.lists(st.floats(0, 1), min_size=1, max_size=30), limit=st.floats(0, 4))
def test_what_is_chosen_keeps_the_limit_and_nothing_cheap_is_left(costs: list[float], limit: float) -> None:
    """Errors that add up: a limit of all of them takes all, none is broken."""
    steps = [Step(number, SINGLE, cost) for number, cost in enumerate(costs)]

    def error_of(chosen: Mapping[int, StoredWeight]) -> float:
        return sum(costs[number] for number in chosen)

    chosen = choose(steps, error_of, limit)
    assert error_of(chosen) <= limit
    assert len(chosen) == len(costs) or sum(costs) > limit
    left = [cost for number, cost in enumerate(costs) if number not in chosen]
    assert not left or error_of(chosen) + min(left) > limit - 1e-9


SINGLE = stored(64)


def test_steps_of_a_layer_go_to_smaller_forms_at_rising_costs() -> None:
    b = GraphBuilder("one")
    graph = b.finish({"y": b.single("linear", x=b.input("x", "fp16", (1, 64)), weight=weight(64, 64))})
    [layer] = layers_of(graph, 1)
    assert isinstance(layer, Layer)
    candidates = [store(form, layer.weight.array(), 0) for form in (WeightForm.PALETTE4, WeightForm.INT8,
                                                                    WeightForm.PALETTE6)]
    steps = steps_of(0, layer, candidates, {"int8": 0.01, "palette6": 0.05, "palette4": 0.1})
    assert [step.stored.form for step in steps] == [WeightForm.INT8, WeightForm.PALETTE6, WeightForm.PALETTE4]
    assert [step.cost for step in steps] == sorted(step.cost for step in steps)
    worse = steps_of(0, layer, candidates, {"int8": 0.01, "palette6": 0.2, "palette4": 0.1})
    assert [step.stored.form for step in worse] == [WeightForm.INT8, WeightForm.PALETTE4], "nothing gains by the other"


def test_positions_are_drawn_within_their_table_and_masks_are_ones() -> None:
    sample = drawn(encoder())
    assert sample["ids"].max() > 1
    assert sample["ids"].max() < 100
    assert sample["attention_mask"].all()


def test_samples_come_from_archives_and_folders(tmp_path) -> None:
    x = drawn(network())["x"]
    np.savez(tmp_path / "one.npz", x=x)
    assert np.array_equal(read_samples(tmp_path / "one.npz")[0]["x"], x)
    np.savez(tmp_path / "two.npz", x=x.reshape(16, 64).astype(np.float64))
    assert len(read_samples(tmp_path)) == 2
    folder = tmp_path / "single"
    folder.mkdir()
    np.save(folder / "x.npy", x)
    assert np.array_equal(read_samples(folder)[0]["x"], x)
    (tmp_path / "three.npz").write_bytes(b"PK\x03\x04 no archive")
    with pytest.raises(FormatError, match=r"three\.npz cannot be read as numpy's npz"):
        read_samples(tmp_path)


@pytest.mark.parametrize(("sample", "says"), [({"z": np.zeros(4)}, "the sample lacks 'x'"),
                                              ({"x": np.zeros(3)}, "must have shape"),
                                              ({"x": np.full(1024, np.nan)}, "NaN"),
                                              ({"x": np.full(1024, 1e30)}, r"what fp16 can; found 1e\+30"),
                                              ({"x": np.array(["1"] * 1024)}, "must hold numbers; found <U1"),
                                              ({"x": np.ones(1024, complex)}, "must hold numbers; found complex"),
                                              ({"x": np.zeros(1024, "M8[s]")}, "must hold numbers")])
def test_samples_that_do_not_fit_are_refused(sample: dict[str, np.ndarray], says: str) -> None:
    with pytest.raises(GraphError, match=says):
        ane.quantize(network(), samples=sample)


@pytest.mark.parametrize(("arguments", "says"), [
    ({"form": "int4"}, "weights have no such form"), ({"form": "auto", "samples": []}, "measured on samples"),
    ({"activations": "int8"}, "no record shows how the engine multiplies activations of 8 bits"),
    ({"max_error": -1.0}, "0 or more"), ({"max_error": float("nan")}, "0 or more"),
    ({"max_error": float("inf")}, "finite"), ({"least": 0}, "1 or more"), ({"block": 1}, "2 or more"),
    ({"form": "sparse", "zeros": 1.0}, "below 1")])
def test_what_cannot_be_is_refused(arguments: dict[str, object], says: str) -> None:
    with pytest.raises(UnsupportedError, match=says):
        ane.quantize(network(), **arguments)


def test_positions_are_whole_numbers() -> None:
    sample = drawn(encoder())
    with pytest.raises(GraphError, match=r"'ids' must hold what int32 can; found 0\.5"):
        ane.quantize(encoder(), samples={**sample, "ids": np.full((1, 6), 0.5)})


@pytest.mark.parametrize("damage", ["another compression", "a password", "a byte", "an extent"])
def test_damaged_archives_are_refused(damage: str, tmp_path) -> None:
    path = tmp_path / "x.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        stated = (1 << 40, 1 << 12) if damage == "an extent" else (64,)
        header = str({"descr": "<f4", "fortran_order": False, "shape": stated}).ljust(117) + "\n"
        archive.writestr("x.npy", b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode()
                         + np.random.default_rng(0).bytes(256))
    data = bytearray(path.read_bytes())
    place = data.index(b"PK\x01\x02")
    if damage == "another compression":
        data[place + 10] = data[8] = 9
    elif damage == "a password":
        data[place + 8] |= 1
        data[6] |= 1
    elif damage == "a byte":
        data[40:44] = b"\xff" * 4
    path.write_bytes(data)
    with pytest.raises(FormatError, match=r"x\.npz cannot be read as numpy's npz"):
        read_samples(path)


def test_nothing_is_measured_without_samples() -> None:
    found = ane.quantize(network(), "int8", samples=[])
    assert found.samples == "none"
    assert found.error is None
    assert all(layer.result_error is None for layer in found.layers)


def test_states_are_zeros_in_samples_that_are_drawn() -> None:
    b = GraphBuilder("step")
    state = b.state("held", "fp16", (1, 64))
    x = b.input("x", "fp16", (1, 64))
    total = b.single("add", x=b.read(state), y=b.single("linear", x=x, weight=weight(64, 64)))
    b.write(state, total)
    found = ane.quantize(b.finish({"y": total}))
    assert found.forms == (WeightForm.INT8,)
    assert any(key.startswith("state:") for key in found.graph.metadata)
    assert 0 < found.errors["y"] < 0.02
