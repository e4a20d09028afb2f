"""Nodes that are lowered as others were: a network has the same layers again and again, and is compiled again.

What became of a node is kept with its situation. A node in an equal one (in this program or a later one) is not lowered
any more: its operations are those, in other slots; its weights are packed to the same form.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import islice

import numpy as np

from openane.compiler.buffers.storage import FIRST_VIRTUAL_SLOT, VirtualBuffer
from openane.compiler.lower.allocation import Fill
from openane.compiler.lower.provenance import Traced
from openane.compiler.lower.situations import Situation, Situations, Told
from openane.compiler.lower.values import Reshaped
from openane.compiler.weights.layout_records import ConstantForm, Picked, WeightView
from openane.compiler.weights.pack import PackedCoefficients
from openane.engine import Access, Coefficients, CoefficientSection, NeuralOperation, Operation, with_operands
from openane.engine.changing import with_fields
from openane.graph import Node, Value
from openane.ops.lowering import Tensor
from openane.record_classes import dataclass

MOST = 1 << 14
"""Engine operations, and kilobytes of constants, that all lowered nodes have together which are kept."""
LARGEST = 1 << 16
"""Bytes of constants that are kept of one node."""
KILOBYTE = 1 << 10
MANY = 16
"""Operations from which on a node without constants is lowered anew sooner than they are moved to other slots."""
NUMBERS = PackedCoefficients(0, (), 1)
"""In place of coefficients that are kept as bytes."""
Place = tuple[tuple[int, ...], int, tuple[int, ...]]
"""Slots of what was there, the first of a node's own buffers, and where its constants lie."""


@dataclass(frozen=True, slots=True)
class _Stored:
    """Constants that a node stored: bytes, or weights packed in a form. `traced` says of which operands these are."""

    fill: Fill
    data: bytes
    traced: Traced | None


@dataclass(frozen=True, slots=True)
class _Placed:
    """What became of a node in one place: operations, tensors that values were given, and which of its constants its
    pieces are made of."""

    operations: tuple[Operation, ...]
    tensors: tuple[Tensor | Reshaped, ...]
    traced: tuple[Traced, ...]


@dataclass(frozen=True, slots=True)
class _Lowered:
    """What became of a node, in the slots it had: buffers from the virtual slot `first` on, values that were given a
    place and readers that were carried out within it (by their numbers in the situation), constants. `elsewhere` has
    what became of nodes that were lowered as this one since, and of itself."""

    slots: tuple[int, ...]
    first: int
    made: _Placed
    blocks: tuple[VirtualBuffer, ...]
    values: tuple[int, ...]
    fused: tuple[int, ...]
    stored: tuple[_Stored, ...]
    lost: bool
    elsewhere: dict[Place, _Placed]


@dataclass(frozen=True, slots=True)
class Before:
    """What there was before a node was lowered, for what came of it to be told from that."""

    blocks: int
    known: int
    places: tuple[Tensor | Reshaped | None, ...]
    fused: int
    widened: int


class LoweredNodes:
    """What became of nodes, by their situation: so many operations at most, then it begins anew."""

    def __init__(self, most: int = MOST) -> None:
        self._most, self.held = most, 0
        self._known: dict[Told, _Lowered] = {}

    def get(self, told: Told) -> _Lowered | None:
        """What became of a node in this situation."""
        return self._known.get(told)

    def add(self, told: Told, made: _Lowered) -> None:
        """Keeps what became of one."""
        data = sum(len(each.data) for each in made.stored) // KILOBYTE
        if self._fits(1 + len(made.made.operations) + data):
            self._known[told] = made

    def add_place(self, made: _Lowered, place: Place, placed: _Placed) -> None:
        """Keeps what became of a node that was lowered as another one."""
        if self._fits(len(placed.operations)):
            made.elsewhere[place] = placed

    def _fits(self, weight: int) -> bool:
        """Whether so much more may be kept; what is kept is forgotten where that is too much."""
        if self.held + weight > self._most:
            self.clear()
        if weight > self._most:
            return False
        self.held += weight
        return True

    def clear(self) -> None:
        """Forgets all of them."""
        self._known, self.held = {}, 0


@cache
def kept() -> LoweredNodes:
    """What this process keeps."""
    return LoweredNodes()


class Repeats(Situations):
    """Lowers nodes as others in the same situation were."""

    def before(self, here: Situation) -> Before:
        """What there is so far."""
        return Before(len(self.blocks.table), len(self._known),
                      tuple([self.place_of(value) for value in here.values]), len(self.fused), len(self._widened))

    def keep(self, here: Situation, before: Before, node: Node, operations: tuple[Operation, ...]) -> None:
        """Keeps what became of a node, these operations, where all of that can be done again."""
        places, fused, stored = self._placed(here, before), self._fused_since(here, before), self._stored(node, here)
        if places is None or fused is None or stored is None:
            return
        table, first = self.blocks.table, FIRST_VIRTUAL_SLOT + before.blocks
        place = here.slots, first, tuple([each.fill.offset for each in stored])
        known = kept().get(here.told)
        made = _Placed(operations, tuple([tensor for _, tensor in places]), tuple(self.trace.pieces.get(id(node), ())))
        values = tuple([number for number, _ in places])
        if known is None:
            blocks = tuple([table[slot] for slot in range(first, FIRST_VIRTUAL_SLOT + len(table))])
            kept().add(here.told, _Lowered(here.slots, first, made, blocks, values, fused, stored,
                                           id(node) in self.trace.lost, {place: made}))
        elif values == known.values:
            kept().add_place(known, place, made)

    def _placed(self, here: Situation, before: Before) -> tuple[tuple[int, Tensor | Reshaped], ...] | None:
        """The values of a situation that have another place than before; None where others have, too."""
        after = [self.place_of(value) for value in here.values]
        places = tuple([(number, new) for number, (old, new) in enumerate(zip(before.places, after, strict=True))
                        if new is not None and new is not old])
        more = sum(before.places[number] is None for number, _ in places)
        alone = len(self._known) - before.known == more and len(self._widened) == before.widened
        return places if alone else None

    def _fused_since(self, here: Situation, before: Before) -> tuple[int, ...] | None:
        """The readers of a situation that were carried out within a node; None where others were, too."""
        numbers = {id(reader): number for number, reader in enumerate(here.readers)}
        since = list(islice(reversed(self.fused), len(self.fused) - before.fused))
        return tuple([numbers[key] for key in since]) if numbers.keys() >= set(since) else None

    def _stored(self, node: Node, here: Situation) -> tuple[_Stored, ...] | None:
        """The constants a node stored; None where they cannot be made again of others in the same form."""
        traced = self.trace.pieces.get(id(node), [])
        if any(each.weights is not None for each in traced):
            return None
        if not here.as_they_are:
            return self._stored_literally()
        lost, waiting = id(node) in self.trace.lost and any(fill.weights for fill in self.fills), list(traced)
        made = [self._stored_piece(fill, waiting) for fill in self.fills]
        stored = tuple([each for each in made if each is not None])
        return stored if not (lost or waiting) and len(stored) == len(made) else None

    def _stored_literally(self) -> tuple[_Stored, ...] | None:
        """The constants a node stored as bytes; None where they are too many to keep."""
        literal = tuple([_Stored(fill if fill.packed is None else with_fields(fill, {"packed": NUMBERS}),
                                 self.held(fill), None) for fill in self.fills])
        return literal if sum(len(each.data) for each in literal) <= LARGEST else None

    def _stored_piece(self, fill: Fill, waiting: list[Traced]) -> _Stored | None:
        """Bytes, or weights, of which the first of those `waiting` says whose they are; None where they are not told
        or packed by their numbers, or where others are the same bytes."""
        if not fill.weights:
            return _Stored(fill, self.held(fill), None)
        known = waiting.pop(0) if waiting else None
        shared = sum((each.kernels, each.offset) == (fill.kernels, fill.offset) for each in self.fills) > 1
        if known is None or known.piece.form is ConstantForm.SPARSE or shared:
            return None
        return _Stored(_without_numbers(fill), b"", known)

    def repeat(self, here: Situation, node: Node) -> tuple[Operation, ...] | None:
        """The operations of a node that is lowered as another one was; None, with nothing done, where none like it is
        known."""
        known, first = kept().get(here.told), FIRST_VIRTUAL_SLOT + len(self.blocks.table)
        if known is None or (len(known.made.operations) > MANY and not known.stored
                             and (here.slots, first, ()) not in known.elsewhere):
            return None
        offsets = tuple([self._stored_again(each, node) for each in known.stored])
        for block in known.blocks:
            self.blocks.add(block)
        place = here.slots, first, offsets
        made = known.elsewhere.get(place)
        if made is None:
            made = _Again(known, here.slots, first, offsets).placed(known.made)
            kept().add_place(known, place, made)
        for number, tensor in zip(known.values, made.tensors, strict=True):
            self._known[id(here.values[number])] = tensor
        for number in known.fused:
            self.fused[id(here.readers[number])] = node
        if made.traced:
            self.trace.pieces[id(node)] = list(made.traced)
        if known.lost:
            self.trace.unknown(node)
        return made.operations

    def _stored_again(self, each: _Stored, node: Node) -> int:
        """Where the same constants, or other weights in the same form, are stored."""
        fill, traced = each.fill, each.traced
        if traced is None:
            return self.refill(fill, lambda place: np.copyto(place, np.frombuffer(each.data, np.uint8)))
        weights, bias = _seen(node, traced.operand, traced.piece.weights), _seen(node, traced.bias, traced.piece.bias)
        if fill.packed is None:
            assert weights is not None, "rows are of some operand"
            return self.constants.surface(weights).offset
        return self.refill(fill, with_fields(fill.packed, {"weights": weights, "bias": bias}).write)


def _without_numbers(fill: Fill) -> Fill:
    """What was stored, as a form for other numbers."""
    if fill.packed is None:
        return fill
    return with_fields(fill, {"packed": with_fields(fill.packed, {"weights": None, "bias": None, "parts": ()})})


def _seen(node: Node, name: str, view: WeightView | Picked | None) -> np.ndarray | None:
    """Elements of an operand of a node, as they lie in memory."""
    if view is None or not name:
        return None
    assert isinstance(view, WeightView), "picked elements are not kept"
    name, _, number = name.partition(".")
    operand = node.operands[name]
    value: Value = operand[int(number)] if isinstance(operand, tuple) else operand
    return view.of(value.array().view(np.ndarray).ravel("K"))


class _Again:
    """Where things of a lowered node are when it is lowered again: slots of what was there, then of its own buffers
    from `first` on; pieces of constants."""

    def __init__(self, known: _Lowered, slots: Sequence[int], first: int, offsets: Sequence[int]) -> None:
        self._slots: dict[int, int] = dict(zip(known.slots, slots, strict=True))
        self._slots.update((known.first + number, first + number) for number in range(len(known.blocks)))
        self._pieces = [(each.fill, offset) for each, offset in zip(known.stored, offsets, strict=True)]
        self._accesses: dict[int, Access] = {}  # by id: the lowered node keeps them alive
        self._coefficients: dict[int, Coefficients] = {}

    def placed(self, made: _Placed) -> _Placed:
        """What became of the node, where it is now."""
        return _Placed(tuple(map(self._operation, made.operations)), tuple(map(self._place, made.tensors)),
                       tuple(map(self._traced, made.traced)))

    def _place(self, known: Tensor | Reshaped) -> Tensor | Reshaped:
        """The tensor of a value."""
        if isinstance(known, Reshaped):
            return Reshaped(self._tensor(known.tensor), known.shape)
        return self._tensor(known)

    def _traced(self, known: Traced) -> Traced:
        """Which constants became a piece."""
        rows = known.piece.form is ConstantForm.ROWS
        offset = next(new for fill, new in self._pieces
                      if (fill.packed is None) == rows and fill.offset == known.piece.offset)
        if offset == known.piece.offset:
            return known
        return with_fields(known, {"piece": with_fields(known.piece, {"offset": offset})})

    def _tensor(self, tensor: Tensor) -> Tensor:
        slot, offset = self._there(tensor.slot, tensor.offset)
        return with_fields(tensor, {"slot": slot, "offset": offset})

    def _there(self, slot: int, offset: int) -> tuple[int, int]:
        """What lies in a slot, or at a place in one of the constants'."""
        if slot in self._slots:
            return self._slots[slot], offset
        fill, new = next((fill, new) for fill, new in self._pieces if fill.slot == slot
                         and fill.offset <= offset < fill.offset + fill.size)
        return slot, offset + new - fill.offset

    def _operation(self, operation: Operation) -> Operation:
        changes: dict[str, Access | Coefficients | None] = {"result": self._access(operation.result)}
        if isinstance(operation, NeuralOperation):
            changes["source"] = self._access(operation.source)
            if operation.coefficients is not None:
                changes["coefficients"] = self._streamed(operation.coefficients)
        else:
            changes["first"] = self._access(operation.first)
            if operation.second is not None:
                changes["second"] = self._access(operation.second)
        return with_operands(operation, changes)

    def _access(self, access: Access) -> Access:
        made = self._accesses.get(id(access))
        if made is None:
            made = access.relocated(access.space, *self._there(access.slot, access.offset))
            if access.copy is not None:
                made = with_fields(made, {"copy": self._access(access.copy)})
            self._accesses[id(access)] = made
        return made

    def _streamed(self, coefficients: Coefficients) -> Coefficients:
        made = self._coefficients.get(id(coefficients))
        if made is None:
            made = self._coefficients[id(coefficients)] = coefficients.relocated(self._section)
        return made

    def _section(self, section: CoefficientSection) -> CoefficientSection:
        start = section.streams.start
        slot, offset = self._there(section.slot, start)
        return section.relocated(slot, offset - start)
