"""Operators that only the host computes: what they give is what onnxruntime and ONNX's reference give."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from openane.errors import GraphError, UnsupportedError
from openane.importers.onnx import load_onnx
from openane.importers.onnx.nodes import nodes_of
from openane.importers.onnx.positions import positions
from openane.ops.evaluate import evaluate

helper = onnx.helper
FLOAT, WHOLE = 1, 6


def _bits(op: str, other: np.ndarray | None, kind: int = WHOLE, **attributes: object) -> list[onnx.NodeProto]:
    names = ["i"] if other is None else ["i", "c"]
    return [helper.make_node("Cast", ["x"], ["i"], to=kind), helper.make_node(op, names, ["b"], **attributes),
            helper.make_node("Cast", ["b"], ["y"], to=FLOAT)]


@pytest.mark.parametrize("op", ["BitwiseAnd", "BitwiseOr", "BitwiseXor"])
def test_bits_of_two_numbers(op, model, compare) -> None:
    x = np.array([[0, 1, -1, 1000, -513]], np.float32)
    compare(model(_bits(op, x), {"x": (1, 5)}, {"c": np.array([3, 6, 9, 511, 77], np.int32)}, 18), {"x": x})


@pytest.mark.parametrize(("kind", "x"), [(6, [0, 1, -5, 300]), (3, [0, 1, -5, 127]), (2, [0, 1, 200, 255])])
def test_turned_bits(kind, x, model, compare) -> None:
    compare(model(_bits("BitwiseNot", None, kind), {"x": (4,)}, {}, 18), {"x": np.array(x, np.float32)})


@pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
def test_shifted_bits(direction, model, compare) -> None:
    x = np.array([1, 2, 255, 128], np.float32)
    by = np.array([1, 7, 3, 1], np.uint8)
    compare(model(_bits("BitShift", x, 2, direction=direction), {"x": (4,)}, {"c": by}, 18), {"x": x})


def _grid(*shape: int) -> np.ndarray:
    return np.random.default_rng(4).uniform(-1.4, 1.4, shape).astype(np.float16).astype(np.float32)


@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
@pytest.mark.parametrize("padding_mode", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("align_corners", [0, 1])
def test_images_sampled_at_computed_places(mode, padding_mode, align_corners, weights, model, compare) -> None:
    node = helper.make_node("GridSample", ["x", "z"], ["y"], mode=mode, padding_mode=padding_mode,
                            align_corners=align_corners)
    compare(model([node], {"x": (2, 3, 5, 6), "z": (2, 4, 7, 2)}),
            {"x": weights(2, 3, 5, 6), "z": _grid(2, 4, 7, 2)}, tolerance=0.01)


def test_sampling_that_is_not_done_is_refused(model) -> None:
    for attributes, match in (({"mode": "cubic"}, "one of bilinear"), ({"padding_mode": "wrap"}, "one of zeros")):
        proto = model([helper.make_node("GridSample", ["x", "z"], ["y"], **attributes)],
                      {"x": (1, 1, 3, 3), "z": (1, 2, 2, 2)}, opset=20)
        with pytest.raises(UnsupportedError, match=match):
            load_onnx(proto)


@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("ratio", [0, 2])
@pytest.mark.parametrize("corners", ["half_pixel", "output_half_pixel"])
def test_regions_of_images(mode, ratio, corners, weights, model, compare) -> None:
    rois = np.array([[0, 0, 5, 4], [1, 2, 9, 7], [-2, -3, 3, 3]], np.float32)
    node = helper.make_node("RoiAlign", ["x", "z", "n"], ["y"], mode=mode, sampling_ratio=ratio, output_height=2,
                            output_width=3, spatial_scale=0.5, coordinate_transformation_mode=corners)
    compare(model([node], {"x": (2, 3, 6, 7), "z": (3, 4)}, {"n": np.array([0, 1, 1])}),
            {"x": weights(2, 3, 6, 7), "z": rois}, tolerance=0.01)


@pytest.mark.parametrize("most", [4, 2 ** 63 - 1])
def test_boxes_over_each_other(most, model) -> None:
    """Where there is no limit exporters write the largest number, and a row is for every box."""
    random = np.random.default_rng(2)
    corner = random.uniform(0, 4, (2, 30, 2))
    boxes = np.concatenate([corner, corner + random.uniform(0.5, 3, (2, 30, 2))], 2).astype(np.float16)
    scores = random.uniform(0, 1, (2, 3, 30)).astype(np.float16)
    constants = {"m": np.array(most), "o": np.array(0.4, np.float32), "s": np.array(0.3, np.float32)}
    node = helper.make_node("NonMaxSuppression", ["x", "z", "m", "o", "s"], ["y"])
    proto = model([node], {"x": (2, 30, 4), "z": (2, 3, 30)}, constants)
    proto.graph.output[0].type.tensor_type.elem_type = 7
    data = {"x": boxes.astype(np.float32), "z": scores.astype(np.float32)}
    with pytest.warns(RuntimeWarning, match="rows behind those that are kept hold -1"):
        found = evaluate(load_onnx(proto), data)["y"]
    import onnxruntime
    wanted = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, data)[0]
    assert found.shape == (2 * 3 * min(most, 30), 3)
    np.testing.assert_array_equal(found[found[:, 0] >= 0], wanted)
    assert (found[len(wanted):] == -1).all()


def test_positions_in_long_tables_are_found(model) -> None:
    nodes = [helper.make_node("Add", ["x", "c"], ["a"]), helper.make_node("Gather", ["long", "a"], ["e"]),
             helper.make_node("Mul", ["x", "c"], ["b"]), helper.make_node("Gather", ["short", "b"], ["y"])]
    proto = model(nodes, {"x": (4,)}, {"c": np.array(1), "long": np.zeros((3000, 2), np.float32),
                                       "short": np.zeros((300, 2), np.float32)})
    assert {"a", "x", "c"} <= positions(nodes_of(proto.graph), proto.graph.initializer)
    assert "b" not in positions(nodes_of(proto.graph), proto.graph.initializer)


def test_products_whose_remainder_is_taken_stay_exact(model) -> None:
    """As hashes of characters are made, be the table they look up in short."""
    nodes = [helper.make_node("Mul", ["x", "c"], ["a"]), helper.make_node("Mod", ["a", "d"], ["b"]),
             helper.make_node("Gather", ["short", "b"], ["y"])]
    proto = model(nodes, {"x": (4,)}, {"c": np.array(103), "d": np.array(64), "short": np.zeros((64, 2), np.float32)})
    assert {"x", "a", "b"} <= positions(nodes_of(proto.graph), proto.graph.initializer)


@pytest.mark.parametrize("op", ["Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform",
                                "RandomUniformLike"])
def test_random_numbers_are_the_callers(op, model) -> None:
    names = [] if op in ("RandomNormal", "RandomUniform") else ["x"]
    proto = model([helper.make_node(op, names, ["y"])], {"x": (2, 3)})
    with pytest.raises(UnsupportedError, match=f"ONNX {op}(.|\n)*noise as an input"):
        load_onnx(proto)


def test_inputs_that_decide_how_a_model_runs(model) -> None:
    branches = [helper.make_graph([helper.make_node(op, ["x"], [f"{op}_y"])], op, [],
                                  [helper.make_tensor_value_info(f"{op}_y", 1, None)]) for op in ("Relu", "Abs")]
    nodes = [helper.make_node("Equal", ["rate", "c"], ["same"]),
             helper.make_node("If", ["same"], ["y"], then_branch=branches[0], else_branch=branches[1])]
    proto = model(nodes, {"x": (2, 3)}, {"c": np.array(16000)})
    proto.graph.input.append(helper.make_tensor_value_info("rate", 7, []))
    for rate, op in ((16000, "relu"), (np.float64(8000), "abs"), ([16000], "relu")):
        graph = load_onnx(proto, values={"rate": np.asarray(rate)})
        assert [node.op for node in graph.nodes] == [op]
    with pytest.raises(UnsupportedError, match="--value rate=NUMBER"):
        load_onnx(proto)
    for rate in (0.5, [1, 2]):
        with pytest.raises(GraphError, match="'rate'"):
            load_onnx(proto, values={"rate": np.asarray(rate)})
