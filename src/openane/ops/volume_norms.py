"""Normalisation of groups of channels of a volume, as exporters write it: the tensor of [batch, channels, depth,
height, width] is given rows of one group each, these are normalised, and the result is given the first shape again.

Rows of pixels would all be laid out anew. Channels and depth alone become one dimension here, and rows and columns
stay.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from openane.graph import Node
from openane.ops.fewer import MOST
from openane.ops.rewriter import Rewriter

NORMS = ("layer_norm", "instance_norm")


def volume_norm(node: Node, names: set[str], producers: Mapping[int, Node]) -> tuple[Node, ...] | None:
    """The nodes that normalise groups without making rows of them; None where that is not what this reshape ends."""
    shape = node.output.shape
    norm = producers.get(id(node["x"]))
    if norm is None or norm.op not in NORMS or len(shape) != MOST:
        return None
    rows = producers.get(id(norm["x"]))
    if rows is None or rows.op != "reshape" or rows["x"].shape != shape or not _of_rows(norm):
        return None
    batch, groups, *_ = norm.output.shape
    if batch != shape[0] or shape[1] % groups:
        return None
    rewriter = Rewriter(node, names)
    split = np.array([batch, groups, shape[1] // groups * shape[2], *shape[3:]], np.int32)
    normal = rewriter.single("layer_norm", x=rewriter.single("reshape", x=rows["x"], shape=split),
                             axes=np.arange(2, MOST, dtype=np.int32), epsilon=norm.get("epsilon"))
    return rewriter.instead((rewriter.single("reshape", x=normal, shape=node["shape"]),))


def _of_rows(norm: Node) -> bool:
    """Whether it normalises rows, each as a whole, and changes nothing else."""
    axes = norm.get("axes")
    rows = norm.op == "instance_norm" or (axes is not None and axes.array().tolist() in ([2], [-1]))
    return rows and norm.output.type.rank == 3 and is_plain(norm)


def is_plain(norm: Node) -> bool:
    """Whether a norm has no gain and offset but ones and zeros, and no scale."""
    return norm.get("scale") is None and all(
        vector is None or (vector.constant and bool((vector.array() == number).all()))
        for vector, number in ((norm.get("gamma"), 1), (norm.get("beta"), 0)))
