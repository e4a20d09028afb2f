"""Boxes chosen as Core ML chooses them: MIL's non_maximum_suppression, and the model of that name behind a detector.

The operation of the graph gives the rows of what is kept; coordinates and scores are looked up by them. Where fewer
boxes are kept than there are rows, the others hold zeros, and -1 in place of a box.
"""

from __future__ import annotations

import numpy as np

from openane.errors import GraphError, UnsupportedError
from openane.graph import Node, Value
from openane.ops.build import GraphBuilder
from openane.ops.operands import Arguments
from openane.ops.spec import Parameter
from openane.record_classes import dataclass

MOST_ROWS = 1 << 16
"""Rows of the result, where there are fewer boxes."""
STATED = (
    Parameter("boxes"), Parameter("scores"), Parameter("iou_threshold", const=True, kind="number"),
    Parameter("score_threshold", const=True, default=float("-inf"), kind="number"),
    Parameter("max_boxes", const=True, kind="int32"),
    Parameter("per_class_suppression", const=True, default=False, kind="bool"),
)


@dataclass(frozen=True, slots=True)
class KeptBoxes:
    """Coordinates [n, most, 4], scores [n, most, classes] and numbers [n, most] of what is kept."""

    coordinates: Value
    scores: Value
    numbers: Value


def keeps_boxes(node: Node) -> bool:
    """Whether a node is the operation as MIL states it."""
    return node.op == "non_maximum_suppression" and "iou_threshold" in node.operands


def kept_boxes(node: Node, rewriter: GraphBuilder) -> list[Value]:
    """MIL's results: from iOS 17 on boxes lie along the last axis, and how many there are is no result."""
    arguments = Arguments(node.op, STATED, node.operands)
    boxes, scores = node["boxes"], node["scores"]
    turned = len(node.outputs) == 3
    if turned:
        boxes, scores = (rewriter.single("transpose", x=each, perm=[0, 2, 1]) for each in (boxes, scores))
    kept = suppressed(rewriter, boxes, scores, arguments.integer("max_boxes", 1), arguments.number("iou_threshold"),
                      arguments.number("score_threshold"), same=arguments.flag("per_class_suppression"))
    if turned:
        return [*(rewriter.single("transpose", x=each, perm=[0, 2, 1]) for each in (kept.coordinates, kept.scores)),
                kept.numbers]
    there = rewriter.single("cast", x=rewriter.single("greater_equal", x=kept.numbers, y=np.int32(0)), dtype="int32")
    return [kept.coordinates, kept.scores, kept.numbers,
            rewriter.single("reduce_sum", x=there, axes=[1], keep_dims=False)]


def suppressed(rewriter: GraphBuilder, boxes: Value, scores: Value, most: int, overlap: float, least: float,
               same: bool) -> KeptBoxes:
    """Of boxes [n, count, 4], each centre, width and height, and scores [n, count, classes], at most so many; `same`:
    boxes of other classes stay. GraphError where the shapes do not fit."""
    if boxes.type.rank != 3 or scores.type.rank != 3:
        raise GraphError(f"non_maximum_suppression: boxes [n, count, 4] and scores [n, count, classes], found "
                         f"{boxes.type} and {scores.type}")
    count = boxes.shape[1]
    if most > max(count, MOST_ROWS):
        raise UnsupportedError("non_maximum_suppression", "rows behind the boxes that are kept become a constant",
                               limit=max(count, MOST_ROWS), found=most, remedy="state fewer boxes")
    rows = rewriter.single("non_maximum_suppression", boxes=boxes, most=min(most, count), overlap=overlap,
                           scores=rewriter.single("transpose", x=scores, perm=[0, 2, 1]), least_score=least,
                           centred=True, classes="same" if same else "best")
    column = rewriter.single("slice_by_index", x=rows, begin=[0, 2], end=[rows.shape[0], 3])
    numbers = rewriter.single("reshape", x=column, shape=[boxes.shape[0], min(most, count)])
    if most > count:
        numbers = rewriter.single("concat", axis=1, values=(
            numbers, rewriter.constant(np.full((boxes.shape[0], most - count), -1, np.int32))))
    places = rewriter.single("maximum", x=numbers, y=np.int32(0))
    there = rewriter.single("reshape", shape=[*numbers.shape, 1],
                            x=rewriter.single("greater_equal", x=numbers, y=np.int32(0)))
    found = [rewriter.single("select", cond=there, b=np.float16(0) if each.dtype == "fp16" else np.float32(0),
                             a=rewriter.single("gather", x=each, indices=places, axis=1, batch_dims=1))
             for each in (boxes, scores)]
    return KeptBoxes(found[0], found[1], numbers)
