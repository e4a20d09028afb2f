"""StableHLO loops and branches: loops whose turns are counted are written out, as lax.scan and lax.fori_loop make them,
and where a condition is computed all branches are, of which one is chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from openane.errors import GraphError, UnsupportedError
from openane.graph import Value
from openane.importers.stablehlo.step import Handler, Result, StableStep
from openane.importers.stablehlo.syntax import StableBlock

MOST_TURNS = 1024
"""Of one loop: every turn becomes operations of its own."""


def _while(step: StableStep) -> Result:
    """The body once for every turn, as often as a condition that is known at import says."""
    condition, body = _regions(step, 2)
    carried = list(step.operands)
    for _ in range(MOST_TURNS):
        (more,) = step.inside(condition, carried)
        if not isinstance(more.held, np.ndarray):
            raise UnsupportedError(step.label, "how often a loop turns must be known when the model is imported",
                                   found="a condition that is computed from the inputs",
                                   remedy="lax.scan or lax.fori_loop with a fixed number of turns, choosing with "
                                          "jnp.where what a turn changes")
        if not more.held.reshape(-1)[0]:
            return carried
        carried = step.inside(body, carried)
    raise UnsupportedError(step.label, "every turn of a loop becomes operations of its own", limit=MOST_TURNS,
                           found="more turns", remedy="run a part of the turns at a time, and carry the state")


def _case(step: StableStep) -> Result:
    """The branch a number names, and the last one for every number that names none."""
    branches, which = _regions(step, None), step.operand(0)
    if isinstance(which.held, np.ndarray):
        place = int(which.held.reshape(-1)[0])
        return step.inside(branches[place if 0 <= place < len(branches) else -1], [])
    value = step.as_value(which)
    return _chosen(step, branches, [step.add("equal", f"is{at}", x=value, y=np.int32(at))
                                    for at in range(len(branches) - 1)])


def _if(step: StableStep) -> Result:
    """The first branch where something is true, and the second where not."""
    branches, which = _regions(step, 2), step.operand(0)
    if isinstance(which.held, np.ndarray):
        return step.inside(branches[0 if which.held.reshape(-1)[0] else 1], [])
    return _chosen(step, branches, [step.as_value(which)])


def _chosen(step: StableStep, branches: Sequence[StableBlock], conditions: Sequence[Value]) -> list[Value]:
    """The results of the first branch whose condition holds, of the last one where none does: all are computed."""
    found = [[step.as_value(step.as_stated(each)) for each in step.inside(block, [])] for block in branches]
    results = found[-1]
    for condition, branch in reversed(list(zip(conditions, found, strict=False))):
        results = [step.add("select", "chosen", cond=condition, a=a, b=b)
                   for a, b in zip(branch, results, strict=True)]
    return results


def _regions(step: StableStep, count: int | None) -> Sequence[StableBlock]:
    found = step.statement.regions
    if not found or count not in (None, len(found)):
        raise GraphError(f"{step.label}: has {len(found)} regions")
    return found


OPERATORS: Mapping[str, Handler] = {"case": _case, "if": _if, "while": _while}
