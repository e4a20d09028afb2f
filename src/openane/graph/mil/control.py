"""Blocks of MIL programs: branches and loops, written out while the graph is built. The engine has no control flow.

The branch is taken, and the loop turned, that the program itself decides: by constants, by shapes, by counters. Where a
condition is computed of the inputs, both branches are computed and one is chosen; a loop goes on past it to the bound
that is known, and what it had made when the condition first failed is chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from openane.errors import GraphError, UnsupportedError
from openane.graph.graph import Value
from openane.graph.mil.lists import LISTS
from openane.graph.mil.program import Expression, MilBlock, Reference, Statement
from openane.graph.mil.scope import Held, Listed, Scope
from openane.graph.states import WRITERS

MOST_TURNS = 1024
"""Of one loop: every turn becomes operations of its own."""
MOST_COMPUTED = 128
"""Of one loop whose condition is computed: every turn is computed, and chosen or not."""
MOST_NODES = 100_000
"""What all loops of a program may come to."""
MOST_STATEMENTS = 400_000
"""Of all blocks as they are written out, those among them that are known and come to nothing: loops within loops
multiply."""

Result = Held
Control = Callable[[Scope, Statement], Sequence[Result]]


def written_out(statements: Iterable[Statement]) -> bool:
    """Whether a statement has blocks, or makes a list."""
    return any(each.op in CONTROL for each in statements)


def _run(scope: Scope, block: MilBlock, given: Sequence[Held]) -> list[Held]:
    """The results of a block for what its inputs stand for."""
    if len(given) != len(block.inputs):
        raise GraphError(f"a block takes {len(block.inputs)} values, {len(given)} are given")
    outer, scope.values = scope.values, dict(scope.values)
    scope.inside += 1
    scope.written += 1 + len(block.statements)
    try:
        for (_, name), held in zip(block.inputs, given, strict=True):
            scope.hold(name, held, 0)
        for each in block.statements:
            scope.statement(scope, each)
        return [scope.resolve(reference, "result of a block") for reference in block.outputs]
    finally:
        scope.inside -= 1
        scope.values = outer


def _cond(scope: Scope, statement: Statement) -> Sequence[Result]:
    taken, other = _blocks(scope, statement)
    condition = scope.value(_single(scope, statement, "pred"), "pred")
    if condition.constant:
        return _run(scope, taken if condition.array().reshape(()) else other, ())
    _no_writing(scope, statement)
    both = [_run(scope, block, ()) for block in (taken, other)]
    return [_chosen(scope, statement, condition, *pair) for pair in zip(*both, strict=True)]


def _while_loop(scope: Scope, statement: Statement) -> Sequence[Result]:
    """Turns until the condition is false. `kept` is what was made when a computed condition first failed, `going`
    whether it has not yet; `now` goes on, so that counters stay known."""
    condition, body = _blocks(scope, statement)
    given = statement.arguments.get("loop_vars", ())
    now = [_held(scope, each) for each in (given if isinstance(given, tuple) else (given,))]
    kept, going, computed = now, None, 0
    for _ in range(MOST_TURNS):
        (more,) = _run(scope, condition, now)
        if not isinstance(more, Value):
            raise GraphError(f"{_label(scope, statement)}: its condition is a list")
        if more.constant and not more.array().reshape(()):
            return kept
        if not more.constant:
            _no_writing(scope, statement)
            going = more if going is None else _both(scope, statement, going, more)
        now = _run(scope, body, now)
        kept = now if going is None else [_chosen(scope, statement, going, *pair)
                                          for pair in zip(now, kept, strict=True)]
        computed += going is not None
        if computed > MOST_COMPUTED or _too_much(scope):
            break
    raise _endless(scope, statement, computed)


def _too_much(scope: Scope) -> bool:
    return len(scope.nodes) > MOST_NODES or scope.written > MOST_STATEMENTS


def _endless(scope: Scope, statement: Statement, computed: int) -> UnsupportedError:
    label = _label(scope, statement)
    if computed:
        return UnsupportedError(label, "how often a loop turns must be known, or bounded, when the model is read",
                                limit=f"{MOST_COMPUTED} turns", found="a condition that is computed from the inputs",
                                remedy=f"end the loop by a count too (while condition and turn < {MOST_COMPUTED}), or "
                                       "export one turn as a model with its state as inputs and outputs, and let the "
                                       "host loop")
    return UnsupportedError(label, "every turn of a loop becomes operations of its own", found="more",
                            limit=f"{MOST_TURNS} turns, {MOST_NODES} operations, {MOST_STATEMENTS} statements",
                            remedy="export a part of the turns as a model with its state as inputs and outputs, and "
                                   "let the host loop")


def _blocks(scope: Scope, statement: Statement) -> tuple[MilBlock, MilBlock]:
    if len(statement.blocks) != 2:
        scope.places.fail(f"{statement.op} has {len(statement.blocks)} blocks", expected=2,
                          found=len(statement.blocks), position=statement.position)
    return statement.blocks[0], statement.blocks[1]


def _label(scope: Scope, statement: Statement) -> str:
    return f"{statement.op} ({scope.places.place(statement.position)})"


def _single(scope: Scope, statement: Statement, key: str) -> Reference:
    found = statement.arguments.get(key)
    if not isinstance(found, Reference):
        scope.places.fail(f"{statement.op}: {key} must be one value that has a name", expected=key,
                          found=type(found).__name__, position=statement.position)
    return found


def _held(scope: Scope, expression: Expression) -> Held:
    if isinstance(expression, Reference):
        return scope.resolve(expression, "value")
    if isinstance(expression, tuple):
        raise GraphError("a loop carries values, not tuples of them")
    return scope.value(expression, "carried")


def _no_writing(scope: Scope, statement: Statement) -> None:
    """UnsupportedError where a state is written in a block that may turn out not to run."""
    if any(_writes(block.statements) for block in statement.blocks):
        raise UnsupportedError(_label(scope, statement), "a state is written always or never",
                               found="a condition that is computed from the inputs decides whether it is",
                               remedy="write it after the branches, with what they chose")


def _writes(statements: Iterable[Statement]) -> bool:
    return any(each.op in WRITERS or any(_writes(block.statements) for block in each.blocks) for each in statements)


def _chosen(scope: Scope, statement: Statement, condition: Value, taken: Held, other: Held) -> Held:
    """The first where the condition is true; element by element of lists."""
    if isinstance(taken, Listed) or isinstance(other, Listed):
        if not (isinstance(taken, Listed) and isinstance(other, Listed)):
            raise GraphError(f"{_label(scope, statement)}: a list where the other branch has a tensor")
        if len(taken.elements) != len(other.elements):
            raise _differing(scope, statement, f"lists of {len(taken.elements)} and {len(other.elements)}")
        return Listed(tuple(b if a is None else a if b is None else _choice(scope, statement, condition, a, b)
                            for a, b in zip(taken.elements, other.elements, strict=True)), taken.type)
    return _choice(scope, statement, condition, taken, other)


def _choice(scope: Scope, statement: Statement, condition: Value, taken: Value, other: Value) -> Value:
    if taken is other or _equal(taken, other):
        return taken
    if taken.type != other.type:
        raise _differing(scope, statement, f"{taken.type} and {other.type}")
    source, name = scope.places.source(statement.position), f"{taken.name}_chosen"
    if taken.dtype == "bool":
        return _truth(scope, source, name, condition, taken, other)
    shaped = condition
    if condition.shape != (1,) * taken.type.rank:
        shape = scope.constant(f"{name}_shape", np.ones(taken.type.rank), "int32")
        shaped = scope.add("reshape", f"{name}_condition", source, x=condition, shape=shape)
    return scope.add("select", name, source, cond=shaped, a=taken, b=other)


def _differing(scope: Scope, statement: Statement, found: str) -> UnsupportedError:
    return UnsupportedError(_label(scope, statement),
                            "shapes are static: where the condition is computed from the inputs, both branches give "
                            "the same types", found=found, remedy="pad the smaller result, or let the host decide")


def _equal(first: Value, second: Value) -> bool:
    if not (first.constant and second.constant) or first.type != second.type or isinstance(first.data, str):
        return False
    return np.array_equal(first.array(), second.array())


def _truth(scope: Scope, source: str, name: str, condition: Value, taken: Value, other: Value) -> Value:
    """Of truth values: `taken` and the condition, or `other` and not."""
    if taken.constant and other.constant and taken.array().all() and not other.array().any() \
            and condition.type == taken.type:
        return condition
    left = scope.add("logical_and", f"{name}_taken", source, x=condition, y=taken)
    without = scope.add("logical_not", f"{name}_not", source, x=condition)
    right = scope.add("logical_and", f"{name}_other", source, x=without, y=other)
    return scope.add("logical_or", name, source, x=left, y=right)


def _both(scope: Scope, statement: Statement, first: Value, second: Value) -> Value:
    """Whether two conditions hold."""
    return scope.add("logical_and", "going", scope.places.source(statement.position), x=first, y=second)


CONTROL: Mapping[str, Control] = {"cond": _cond, "while_loop": _while_loop, **LISTS}
"""Statements that make no node of their own."""
