"""Which operation of a compiled model made the first infinity or lost digits, why, and what would help."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from openane.checking import reasons
from openane.checking.beside import Link, Seen, first_small
from openane.checking.causes import GRAVE, INHERITING, Cause, NumericFault, ranked
from openane.checking.followed import Followed
from openane.checking.names import Names, short
from openane.checking.numbers import infinities, largest, relative, usual
from openane.checking.offsets import Offsets
from openane.checking.operands import (
    adds,
    computes_places,
    constants,
    decides,
    dropped,
    offset,
    single,
    sums,
    tabled,
)
from openane.chips.arithmetic import SUM_LIMIT
from openane.graph import Node, RoundedConstant, Value
from openane.ops.halves import LARGEST, SMALLEST, SMALLEST_NORMAL
from openane.ops.moved import keeps_numbers
from openane.ops.step_values import rounds

NOTABLE = 0.01
"""Relative error that one operation adds from which it may be a cause."""
HEALTHY = 0.01
"""Error of inputs up to which an operation, and not what is before it, is why its result is wrong."""
AMPLIFIED = 0.03
"""Error that a result inherits from inputs which have hardly any, from which its operation is named."""
DROPPED = 0.2
"""Of an error what rounded products must explain to be why."""


ADDED = "bias"
"""The constant whose digits count beside the result alone: it is added to the others."""


LARGE = (Cause.SUM, Cause.STORED)
"""Causes that numbers are too large for."""
SCALES = (*LARGE, Cause.PRODUCTS, Cause.SMALL, Cause.ROUNDED)
"""Causes that numbers are too large or too small for."""
GROWN = 16.0
"""How many times larger or smaller an operation makes numbers to be named for it."""
STEPS = 24
"""Operations that are looked at for that, from one to the one that makes its largest operand."""


class Judge:
    """Looks at every result in turn (`look`); `faults` are then what was found, the first cause first."""

    def __init__(self, names: Names, scaled: bool) -> None:
        """`scaled`: whether the model is compiled with --precision safe already."""
        self._names, self._scaled = names, scaled
        self._found: list[NumericFault] = []
        self._place = 0
        self._nodes: list[Node] = []
        self._offsets, self._followed = Offsets(names), Followed()
        self._sizes: dict[int, float] = {}
        self._slight: NumericFault | None = None

    def look(self, seen: Seen) -> None:
        """Judges one result."""
        self._place += 1
        self._nodes.append(seen.node)
        self._followed.follow(seen)
        self._sizes[id(seen.value)] = seen.usual
        found = self._constant(seen) or (self._read(seen) if seen.made is None else self._stored(seen, seen.made))
        if found is None and seen.made is not None and not self._found:
            self._smaller(seen)
        if found is not None and not any(each.operation == found.operation and each.cause == found.cause
                                         for each in self._found):
            self._found.append(found)
            self._followed.begin(seen.value, found)
        self._offsets.remember(seen)

    def take(self, value: Value, array: np.ndarray) -> None:
        """Judges an input of the model."""
        name = value.name
        self._sizes[id(value)] = usual(array)
        size = largest(array) if array.dtype.kind == "f" else 0.0
        if size > LARGEST:
            self._found.append(NumericFault(f"input {name!r}", name, Cause.INPUT, reasons.input_beyond(name, size),
                                       "scale the input down before the model and its first weights up", 1.0, 0,
                                       int(np.count_nonzero(np.abs(array) > LARGEST))))

    def faults(self, right: bool, outputs: Sequence[Value] = ()) -> list[NumericFault]:
        """In the order they are computed, but for those whose error is small beside that of others, or beside what
        they inherit: they come last. Where every output is `right`, only what is grave, and whose error reaches one of
        these `outputs`; where one is not and nothing stands out, the operation at which errors grow most."""
        found = [each for each in self._found
                 if not right or (each.severity >= GRAVE and self._followed.reaches(each, outputs))]
        if not found:
            return [self._slight] if self._slight is not None and not right else []
        return ranked(found, lambda first, second: self._leads(first.place, second.place))

    def _leads(self, first: int, second: int) -> bool:
        """Whether the result at one place is computed from that at another."""
        if not first or first == second:
            return first == 0 or first == second
        goal, waiting, known = self._nodes[first - 1], [self._nodes[second - 1]], set[int]()
        while waiting:
            node = waiting.pop()
            if node is goal:
                return True
            if id(node) not in known:
                known.add(id(node))
                makers = map(self._names.producer, node.values())
                waiting += [maker for maker in makers if maker is not None]
        return False

    def _made(self, seen: Seen, node: Node, cause: Cause, sentence: str, severity: float,
              infinite: int = 0) -> NumericFault:
        severity = min(1.0, severity) if np.isfinite(severity) else 1.0
        inherited = 0.0 if cause in INHERITING else min(1.0, seen.inherited)
        grown, times = self._grown(node, cause in LARGE) if cause in SCALES else (None, 1.0)
        origin = "" if grown is None else self._names.of(grown)
        if origin and origin != self._names.of(node):
            sentence += reasons.grown(short(origin), times, cause in LARGE)
        return NumericFault(self._names.of(node), seen.value.name, cause, sentence,
                       reasons.help_for(cause.name, self._scaled), severity, self._place, infinite, inherited, origin)

    def _grown(self, node: Node, larger: bool) -> tuple[Node | None, float]:
        """The operation, of one and those before it, that makes numbers larger, or smaller, by most, and how many
        times: the one itself only for its constants."""
        found, most = None, GROWN
        for step in range(STEPS):
            before = max((value for value in node.values() if id(value) in self._sizes),
                         key=lambda value: self._sizes[id(value)], default=None)
            if before is None:
                break
            made, known = self._sizes.get(id(node.outputs[0]), 0.0), self._sizes[id(before)]
            times = (made / known if larger else known / made) if made and known else 1.0
            if times >= most and (step or any(constants(node))):
                found, most = node, times
            producer = self._names.producer(before)
            if producer is None:
                break
            node = producer
        return found, most

    def _constant(self, seen: Seen) -> NumericFault | None:
        """Constants that left fp16 when the model was made, or keep few digits in it."""
        if not sums(seen.node):
            return None
        for name, infinite, size in constants(seen.node):
            if infinite:
                return self._made(seen, seen.node, Cause.CONSTANT,
                                  reasons.constant_beyond(name, infinite, size), 1.0, infinite)
            if isinstance(seen.node[name], RoundedConstant):
                continue  # its digits are there when weights are laid out; what is lost then is an added error
            usually = usual(seen.node[name].array())
            beside = usual(seen.near) if name == ADDED else usually
            if usually > 0 and beside > 0 and SMALLEST / 4 / beside >= GRAVE:
                return self._made(seen, seen.node, Cause.SMALL, reasons.small_constant(name, usually),
                                  SMALLEST / 4 / beside)
        return None

    def _stored(self, seen: Seen, made: np.ndarray) -> NumericFault | None:
        if not np.isfinite(seen.before):
            return None
        infinite = infinities(made, seen.near)
        if infinite:
            return self._infinite(seen, infinite) if np.isfinite(seen.wide).any() else None
        added, inherited = seen.added, seen.inherited
        if not np.isfinite(inherited):
            return self._rounded(seen) if seen.before <= GRAVE else None
        if added >= NOTABLE and not self._explained(seen, made):
            return self._lost(seen, added)
        if inherited >= AMPLIFIED and seen.before <= HEALTHY and inherited >= 8 * seen.before:
            return self._cancelled(seen, inherited)
        return self._behind_bias(seen, made)

    def _read(self, seen: Seen) -> NumericFault | None:
        """What the host reads beside the place it should, or a comparison decides otherwise."""
        error = seen.inherited
        if not np.isfinite(error) or error < max(AMPLIFIED, 8 * seen.before):
            return None
        if decides(seen.node) and seen.before <= HEALTHY:
            return self._chosen(seen, seen.node, error)
        if not seen.hosted or not computes_places(seen.node):
            return None
        return self._made(seen, seen.node, Cause.PLACES, reasons.places(seen.node, error), error)

    def _smaller(self, seen: Seen) -> None:
        """Keeps the operation at which errors grow most."""
        added, inherited = seen.added, seen.inherited
        growth = max(added, inherited - seen.before)
        if np.isfinite(growth) and growth > (self._slight.severity if self._slight else 0.0):
            found = self._lost(seen, added) if added >= growth else self._cancelled(seen, inherited)
            self._slight = replace(found, severity=growth)

    def _explained(self, seen: Seen, made: np.ndarray) -> bool:
        """Whether what is wanted is as good as 0 beside what it is made of: differences that should be 0."""
        size = usual(seen.near)
        return size <= SMALLEST and largest(made) <= SMALLEST_NORMAL and any(map(_vanishes, seen.chain))

    def _rounded(self, seen: Seen) -> NumericFault:
        """Infinite, in fp32 too, for inputs as fp16 holds them."""
        link = next((link for link in seen.chain if not np.isfinite(link.peak)), seen.chain[-1])
        return self._made(seen, link.node, Cause.ROUNDED, reasons.rounded(link.node), 1.0,
                          infinities(seen.near, seen.wide))

    def _infinite(self, seen: Seen, count: int) -> NumericFault:
        """The first operation of the task whose numbers leave what the engine holds."""
        for link in seen.chain:
            beyond = next((each for each in constants(link.node) if each[1]), None)
            if beyond is not None:
                return self._made(seen, link.node, Cause.CONSTANT, reasons.constant_beyond(*beyond), 1.0, count)
            summing, size = sums(link.node), link.peak
            if size >= (SUM_LIMIT if summing else LARGEST):
                cause = Cause.SUM if summing else Cause.STORED
                words = reasons.sum_beyond(size) if summing else reasons.stored_beyond(link.node, size)
                return self._enlarged(self._made(seen, link.node, cause, words, 1.0, count), link)
        link = next((link for link in seen.chain if sums(link.node)), seen.chain[-1])
        if sums(link.node):
            return self._made(seen, link.node, Cause.SUM, reasons.partial_sum(link.peak), 1.0, count)
        return self._made(seen, link.node, Cause.STORED, reasons.inside_beyond(link.node, link.peak), 1.0, count)

    def _enlarged(self, found: NumericFault, link: Link) -> NumericFault:
        """Of an operation that makes infinities the one of the model that was merged into it, where that is why."""
        operation = self._names.enlarging(link.node, link.peak / SUM_LIMIT) if sums(link.node) else None
        if operation is None:
            return found
        return replace(found, operation=operation, grown=operation,
                       sentence=found.sentence + reasons.merged(short(self._names.of(link.node))))

    def _lost(self, seen: Seen, added: float) -> NumericFault:
        """The operation of the task that most likely adds an error. What follows a sum in its task may hide that the
        sum is infinite."""
        for link in seen.chain:
            if sums(link.node) and link.peak >= SUM_LIMIT:
                words = reasons.sum_beyond(link.peak)
                return self._enlarged(self._made(seen, link.node, Cause.SUM, words, added), link)
            if link.product is not None and dropped(link.product) >= DROPPED * added:
                return self._made(seen, link.node, Cause.PRODUCTS, reasons.products(link.product, added), added)
        link = next((link for link in seen.chain if tabled(link.node)), seen.chain[-1])
        size = usual(seen.near)
        if size < SMALLEST_NORMAL:
            first = first_small(seen.chain)
            return self._made(seen, first.node, Cause.SMALL, reasons.small(first.size, added), added)
        if tabled(link.node):
            return self._made(seen, link.node, Cause.TABLE, reasons.table(link.node, added), added)
        return self._made(seen, seen.node, Cause.ADDED, reasons.added(seen.node, added), added)

    def _cancelled(self, seen: Seen, inherited: float) -> NumericFault:
        """Healthy inputs, and a wrong result: what the operation takes away was what its inputs had digits for, or it
        is a function that is steep there."""
        link = next(link for link in seen.chain if link.inherited >= inherited / 2)
        hidden = self._offsets.hiding(link, inherited)
        felt = short(self._names.of(link.node))
        if hidden is not None:
            node, size, detail = hidden
            found = self._made(seen, node, Cause.OFFSET, reasons.offset(size, detail, felt), inherited)
            return replace(found, operation=self._names.adding(node, size))
        if seen.counted or rounds(link.node):
            return self._made(seen, link.node, Cause.STEPS,
                              reasons.other_steps(seen.before, inherited, *self._others(link.node)[:1]), inherited)
        if decides(link.node):
            return self._chosen(seen, link.node, inherited)
        return self._taken_away(seen, link, inherited)

    def _taken_away(self, seen: Seen, link: Link, inherited: float) -> NumericFault:
        """What leaves less of numbers than their error: a part of them, a steep function, a difference."""
        sizes = [usual(seen.arrays[id(value)]) for value in link.node.values() if id(value) in seen.arrays]
        before = [self._names.maker(value) for value in link.node.values() if not value.constant]
        if keeps_numbers(link.node):
            return self._made(seen, link.node, Cause.PART, reasons.part(
                max(sizes, default=0.0), usual(seen.wide), seen.before, inherited, *map(short, before[:1])), inherited)
        if single(link.node):
            return self._made(seen, link.node, Cause.STEEP, reasons.steep(
                link.node, max(sizes, default=0.0), seen.before, inherited, *map(short, before[:1])), inherited)
        return self._made(seen, link.node, Cause.CANCELLATION,
                          reasons.cancelled(max(sizes, default=0.0), usual(seen.wide), seen.before, inherited,
                                            [short(each) for each in dict.fromkeys(before)]), inherited)

    def _chosen(self, seen: Seen, node: Node, error: float) -> NumericFault:
        words = reasons.choice(node, seen.before, error, *self._others(node)[:1])
        return self._made(seen, node, Cause.CHOICE, words, error)

    def _others(self, node: Node) -> list[str]:
        """What a node reads, but for parts of the same operation of the model."""
        made = [self._names.maker(value) for value in node.values() if not value.constant]
        return [short(each) for each in made if each != self._names.of(node)]

    def _behind_bias(self, seen: Seen, made: np.ndarray) -> NumericFault | None:
        """A sum whose products were dropped, which its bias hides."""
        bias = offset(seen.node, seen.near) if sums(seen.node) and not seen.counted else None
        if bias is None:
            return None
        detail, product = relative(made, seen.near, bias), seen.chain[-1].product
        if detail < NOTABLE or product is None or dropped(product) < DROPPED * detail:
            return None
        return self._made(seen, seen.node, Cause.PRODUCTS, reasons.products(product, detail), detail)


def _vanishes(link: Link) -> bool:
    """Whether what an operation adds is as good as 0 beside its terms."""
    if sums(link.node):
        return link.product is not None and link.size < link.product
    return adds(link.node) and link.size < max(link.factors, default=0.0) / 8
