"""Pipelines of Core ML: joined networks compute what one after the other computes; boxes are chosen as Core ML does."""

from __future__ import annotations

import numpy as np
import pytest
from support.coreml import message

from openane.errors import GraphError, UnsupportedError
from openane.formats.protobuf import Message, write_message
from openane.graph import Graph
from openane.importers import load_graph, load_mil
from openane.importers.coreml.write import specification_of
from openane.ops.build import GraphBuilder
from openane.ops.evaluate import evaluate

RANDOM = np.random.default_rng(4)
X = RANDOM.standard_normal((1, 3, 4, 4)).astype(np.float32)
BOXES = np.concatenate([RANDOM.random((1, 12, 2)) * 0.4 + 0.3, RANDOM.random((1, 12, 2)) * 0.3 + 0.1], 2)
SCORES = RANDOM.random((1, 12, 3))


def part(function, name: str, made: str, dtype: str = "fp32", shape=X.shape) -> Message:
    """A program of one input and one output."""
    builder = GraphBuilder()
    graph = builder.finish({made: function(builder, builder.input(name, dtype, shape))})
    return specification_of(graph, "ios16")[0]


def pipeline(parts, names=(), outputs=("y",), kind="pipeline") -> Message:
    features = {feature.name: feature for each in parts for feature in each.description.output}
    stored = message("Pipeline", models=list(parts), names=list(names))
    return message("Model", specificationVersion=7, description=message(
        "ModelDescription", input=list(parts[0].description.input), output=[features[name] for name in outputs]),
        **{kind: stored if kind == "pipeline" else message("PipelineOf", pipeline=stored)})


def loaded(model: Message, path, **options) -> Graph:
    path.write_bytes(write_message(model))
    return load_graph(path, **options)


def doubled(b, x):
    return b.single("mul", x=b.single("relu", "inner", x=x), y=2.0)


def summed(b, x):
    return b.single("reduce_sum", x=b.single("abs", "inner", x=x), axes=[2, 3], keep_dims=False)


@pytest.mark.parametrize("kind", ["pipeline", "pipelineClassifier"])
def test_each_model_reads_what_those_before_it_made(tmp_path, kind):
    parts = [part(doubled, "x", "mid"), part(summed, "mid", "y", "fp16", (1, 3, 16, 1))]
    graph = loaded(pipeline(parts, ("first", "second"), ("y", "mid"), kind), tmp_path / "p.mlmodel")
    assert [value.name for value in (*graph.inputs, *graph.outputs)] == ["x", "y", "mid"]
    found, mid = evaluate(graph, {"x": X}), np.maximum(X, 0) * 2
    assert np.allclose(found["mid"], mid, rtol=1e-3)
    assert np.allclose(found["y"], mid.sum((2, 3)), rtol=1e-2)
    alone = loaded(pipeline(parts, ("first", "second"), kind=kind), tmp_path / "p.mlmodel", function="second")
    assert [value.name for value in alone.inputs] == ["mid"]


def test_what_does_not_fit_is_named(tmp_path):
    parts = [part(doubled, "x", "mid"), part(summed, "mid", "y", "fp32", (1, 3, 5, 5))]
    with pytest.raises(GraphError, match="model second of the pipeline: its input 'mid'"):
        loaded(pipeline(parts, ("first", "second")), tmp_path / "p.mlmodel")
    with pytest.raises(GraphError, match="no model 'third'; it has first, second"):
        loaded(pipeline(parts, ("first", "second")), tmp_path / "p.mlmodel", function="third")
    tree = message("Model", specificationVersion=1, treeEnsembleClassifier=message("Empty"))
    with pytest.raises(UnsupportedError, match=r"treeEnsembleClassifier(?s:.*)ai\.onnx\.ml"):
        loaded(tree, tmp_path / "t.mlmodel")
    tree.description = message("ModelDescription")
    mixed = pipeline([parts[0], parts[1]], ("first", "trees"))
    mixed.pipeline.models[1] = tree
    with pytest.raises(UnsupportedError, match=r"model trees of the pipeline(?s:.*)--function NAME, of first"):
        loaded(mixed, tmp_path / "p.mlmodel")


def kept(boxes: np.ndarray, scores: np.ndarray, most: int, overlap: float, least: float, same: bool) -> list[int]:
    """Which boxes stay, box by box."""
    corners = [(x - w / 2, y - h / 2, x + w / 2, y + h / 2) for x, y, w, h in boxes]
    best, found = scores.max(1), []
    for box in np.argsort(-best):
        def over(other, box=box):
            (a, b, c, d), (e, f, g, h) = corners[box], corners[other]
            common = max(min(c, g) - max(a, e), 0) * max(min(d, h) - max(b, f), 0)
            return common > overlap * ((c - a) * (d - b) + (g - e) * (h - f) - common) and (
                not same or scores[box].argmax() == scores[other].argmax())
        if best[box] > least and not any(map(over, found)) and len(found) < most:
            found.append(int(box))
    return found


@pytest.mark.parametrize("same", [False, True])
@pytest.mark.parametrize("most", [3, 20])
@pytest.mark.parametrize("turned", [False, True])
def test_boxes_of_programs_are_chosen_by_their_best_class(turned, most, same):
    """Until iOS 16 boxes lie along the middle axis, and how many there are is a result."""
    counted = "" if turned else ", tensor<int32, [1]> count"

    def shape(count, width):
        return f"[1, {width}, {count}]" if turned else f"[1, {count}, {width}]"

    least = "" if turned else ", score_threshold = fp32(0.5)"
    text = f"""program(1.3)
    {{ func main<ios17>(tensor<fp32, {shape(12, 4)}> b, tensor<fp32, {shape(12, 3)}> s) {{
        tensor<fp32, {shape(most, 4)}> boxes, tensor<fp32, {shape(most, 3)}> scores, tensor<int32, [1, {most}]> at
        {counted} = non_maximum_suppression(boxes = b, scores = s, iou_threshold = fp32(0.25){least},
        max_boxes = int32({most}), per_class_suppression = bool({str(same).lower()}))[name = string("n")];
      }} -> (boxes, scores, at{'' if turned else ', count'}); }}"""
    order = (0, 2, 1) if turned else (0, 1, 2)
    found = evaluate(load_mil(text), {"b": BOXES.transpose(order), "s": SCORES.transpose(order)})
    expected = kept(BOXES[0], SCORES[0], most, 0.25, -np.inf if turned else 0.5, same)
    count = len(expected)
    assert found["at"].tolist() == [expected + [-1] * (most - count)]
    for name, source in (("boxes", BOXES), ("scores", SCORES)):
        rows = found[name].transpose(order)[0]
        assert np.allclose(rows[:count], source[0, expected])
        assert not rows[count:].any()
    assert turned or found["count"].tolist() == [count]


def test_detectors_end_in_a_choice_among_boxes(tmp_path):
    scores = part(lambda b, x: b.single("sigmoid", x=x), "s", "raw_confidence", shape=(12, 3))
    boxes = part(lambda b, x: b.single("identity", x=x), "b", "raw_coordinates", shape=(12, 4))
    chosen = message("Model", specificationVersion=5, description=message(
        "ModelDescription", input=[*scores.description.output, *boxes.description.output],
        output=[message("FeatureDescription", name=name, type=message("FeatureType", multiArrayType=message(
            "ArrayFeatureType", dataType=65568))) for name in ("confidence", "coordinates")]),
        nonMaximumSuppression=message(
            "NonMaximumSuppression", pickTop=message("PickTop", perClass=True), iouThreshold=0.25,
            confidenceThreshold=0.6, confidenceInputFeatureName="raw_confidence",
            coordinatesInputFeatureName="raw_coordinates", confidenceOutputFeatureName="confidence",
            coordinatesOutputFeatureName="coordinates"))
    graph = loaded(pipeline([scores, boxes, chosen], outputs=("confidence", "coordinates")), tmp_path / "p.mlmodel")
    found = evaluate(graph, {"s": SCORES[0], "b": BOXES[0]})
    confidence = 1 / (1 + np.exp(-SCORES[0]))
    expected = kept(BOXES[0], confidence, 12, 0.25, 0.6, True)
    assert np.allclose(found["coordinates"][:len(expected)], BOXES[0, expected], atol=1e-3)
    assert np.allclose(found["confidence"][:len(expected)], confidence[expected], atol=1e-3)
    assert not found["coordinates"][len(expected):].any()
