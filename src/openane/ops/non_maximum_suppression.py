"""non_maximum_suppression: of boxes that lie over each other the one with the best score, as ONNX defines it.

With `classes` "each" every box counts once for each class, and rows of all images follow each other. As Core ML defines
it, a box counts once, with the class it has the best score for: over all boxes ("best") or those of its class ("same");
every image has as many rows then. How many are kept depends on the boxes. Shapes are static here, so the result has a
row for each box that may be kept; rows behind those that are hold -1. The host computes this: the engine does not sort
boxes.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from openane.chips import Limits
from openane.graph import Node, Operand, TensorType
from openane.ops.gradients import stopped
from openane.ops.operands import Arguments, refusal
from openane.ops.spec import Op, Parameter

PARAMETERS = (
    Parameter("boxes"), Parameter("scores"),
    Parameter("most", const=True, kind="int32"), Parameter("overlap", const=True, default=0.0, kind="number"),
    Parameter("least_score", const=True, default=float("-inf"), kind="number"),
    Parameter("centred", const=True, default=False, kind="bool"),
    Parameter("classes", const=True, default="each", kind="string"),
)
CLASSES = ("each", "best", "same")
NONE = -1
"""What rows of no box hold."""


def _infer(operands: Mapping[str, Operand]) -> tuple[TensorType, ...]:
    arguments = Arguments("non_maximum_suppression", PARAMETERS, operands)
    boxes, scores = arguments.tensor("boxes", ranks=(3, 3)), arguments.tensor("scores", ranks=(3, 3))
    batch, count = boxes.shape[:2]
    if boxes.shape[2] != 4 or (scores.shape[0], scores.shape[2]) != (batch, count):
        raise refusal("non_maximum_suppression", "scores", f"must be [{batch}, classes, {count}] for boxes "
                      f"[{batch}, {count}, 4]", list(scores.shape))
    arguments.number("overlap"), arguments.number("least_score"), arguments.flag("centred")
    most = min(arguments.integer("most", 1), count)
    groups = scores.shape[1] if arguments.text("classes", CLASSES) == "each" else 1
    return (TensorType("int32", (batch * groups * most, 3)),)


def _reference(*, boxes: np.ndarray, scores: np.ndarray, most: np.ndarray, overlap: np.ndarray,
               least_score: np.ndarray, centred: np.ndarray, classes: str) -> tuple[np.ndarray, ...]:
    limit = min(int(most), boxes.shape[1])
    found: list[tuple[int, int, int]] = []
    for batch, corners in enumerate(boxes.astype(np.float64)):
        sides = _sides(corners, bool(centred))
        if classes != "each":
            best = scores[batch].argmax(0)
            kept = _kept(sides, scores[batch].max(0), limit, float(overlap), float(least_score),
                         best if classes == "same" else np.zeros_like(best))
            found += [(batch, int(best[box]), box) for box in kept] + [(NONE, NONE, NONE)] * (limit - len(kept))
            continue
        for kind, marks in enumerate(scores[batch]):
            found += [(batch, kind, box) for box in _kept(sides, marks, limit, float(overlap), float(least_score))]
    groups = scores.shape[1] if classes == "each" else 1
    result = np.full((boxes.shape[0] * groups * limit, 3), NONE, np.int32)
    result[:len(found)] = np.array(found, np.int32).reshape(-1, 3)
    return (result,)


def _sides(boxes: np.ndarray, centred: bool) -> np.ndarray:
    """(low, high) of both axes, [boxes, 2, 2]; boxes are (y, x, y, x) of two corners, or `centred` (x, y, w, h)."""
    first, second = boxes[:, :2], boxes[:, 2:]
    if centred:
        first, second = first - second / 2, first + second / 2
    return np.stack([np.minimum(first, second), np.maximum(first, second)], -1)


def _kept(sides: np.ndarray, scores: np.ndarray, limit: int, overlap: float, least: float,
          groups: np.ndarray | None = None) -> list[int]:
    """The best boxes, none over another of its group that is better by more than `overlap` of what both cover."""
    waiting = [int(box) for box in np.argsort(-scores.astype(np.float64), kind="stable") if scores[box] > least]
    kept: list[int] = []
    while waiting and len(kept) < limit:
        kept.append(waiting.pop(0))
        waiting = [box for box in waiting if (groups is not None and groups[box] != groups[kept[-1]])
                   or _shared(sides[kept[-1]], sides[box]) <= overlap]
    return kept


def _shared(first: np.ndarray, second: np.ndarray) -> float:
    """What two boxes both cover, of what either does."""
    common = np.prod(np.maximum(np.minimum(first[:, 1], second[:, 1]) - np.maximum(first[:, 0], second[:, 0]), 0))
    areas = [np.prod(each[:, 1] - each[:, 0]) for each in (first, second)]
    return float(common / (sum(areas) - common)) if common > 0 else 0.0


def sorts_boxes(node: Node, limits: Limits) -> bool:
    """Which boxes are kept depends on data, and the engine's addresses cannot: the host computes this."""
    return False


OPS = (Op("non_maximum_suppression", PARAMETERS, _infer, _reference, rules=(sorts_boxes,), gradient=stopped,
          positions="boxes", fills_up=True),)
