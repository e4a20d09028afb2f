"""What range tensors have on inputs that nobody gave, seen at a part of their positions: enough where that is far from
all that would change a program. Where it is not, and where somebody gives samples, ranges are measured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from openane.errors import AneError
from openane.graph import Graph, Node
from openane.ops import get_op
from openane.ops.drawn_inputs import Drawn
from openane.ops.in_part import cut, evaluate_in_part
from openane.passes.exponent_choice import bordered, chosen, stay_as_they_are, strays
from openane.passes.exponent_groups import Said
from openane.passes.folded_constants import unfolded
from openane.passes.ranges import REARRANGING, Range, of_array
from openane.passes.small_results import keep_small_results, may_be_marked

LARGEST = 4.0
"""How much larger or smaller the largest number of a tensor may be than it is in the part."""
USUAL = 1.25
"""How much smaller its root mean square may be."""
BESIDE = (LARGEST, 1 / USUAL), (1 / LARGEST, 1 / USUAL)
"""What numbers of a part are multiplied by, the largest and the root mean square, to see whether that matters."""


def glanced(graph: Graph, said: Said, samples: Sequence[Mapping[str, np.ndarray]]) -> dict[int, Range] | None:
    """The ranges that tensors about have on a drawn sample, by id of the value; None where numbers near these would
    change what is compiled, or where there is no part that tells."""
    sample = samples[0] if len(samples) == 1 else None
    part = cut(graph, sample) if isinstance(sample, Drawn) else None
    if part is None:
        return None
    found: dict[int, Range] = {}

    def seen(node: Node, arrays: Mapping[int, np.ndarray]) -> bool:
        known = found.get(id(node.get("x"))) if get_op(node.op).moves in REARRANGING else None
        for value in node.outputs:
            array = arrays[id(value)]
            if array.dtype.kind == "f":
                found[id(value)] = known or of_array(array)
        about = found.get(id(node.outputs[0]))
        return about is None or not strays(node, said, about.largest * LARGEST, about.usual / USUAL)

    try:
        whole = evaluate_in_part(graph, part, seen, unfolded)
    except (AneError, ValueError):  # parts that do not fit each other
        return None
    return found if whole and _settled(graph, said, found) else None


def _settled(graph: Graph, said: Said, ranges: Mapping[int, Range]) -> bool:
    """Whether nothing is held times a power of two, and the same functions are marked, whatever the ranges nearby."""
    if stay_as_they_are(graph, said, ranges, (LARGEST, 1 / USUAL)) and not may_be_marked(graph):
        return True
    marked, together = _marked(graph, ranges), bordered(graph, said, ranges)
    for factors in BESIDE:
        nearby = {number: _times(seen, *factors) for number, seen in ranges.items()}
        wanted = chosen(graph, said, nearby, together)
        if wanted.values or wanted.sums or _marked(graph, nearby) != marked:
            return False
    return True


def _marked(graph: Graph, ranges: Mapping[int, Range]) -> list[bool]:
    made = keep_small_results(graph, ranges)
    return [one is not other for one, other in zip(graph.nodes, made.nodes, strict=True)]


def _times(seen: Range, largest: float, usual: float) -> Range:
    return Range(seen.largest * largest, seen.usual * usual, seen.highest * largest, seen.lowest * largest)
