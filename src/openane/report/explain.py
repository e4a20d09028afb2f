"""What costs most in a model on a chip, and what would help: each with the time it would save, at most.

A gain is modelled from the task's own parts: the time without the part that decides, down to the next one. Gains of
different advice for one task do not add up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil

from openane.chips import get_chip
from openane.engine import Activation, NeuralOperation, Operation, PassThrough, Post, Space, sources
from openane.engine.coefficients import CORES, Packing
from openane.report.profile import Profile, Row
from openane.timing import Part
from openane.timing.operation import LANES

PASS = CORES * LANES
BURST = 64
LEAST = 0.005
"""Of the time of an inference: smaller gains are left out."""
PALETTE = 0.25


@dataclass(frozen=True, slots=True)
class Advice:
    """`what` costs time (or accuracy), `remedy` helps, and saves up to `gain` seconds of an inference; None where no
    time is at stake or nobody can say."""

    subject: str
    what: str
    remedy: str
    gain: float | None = None


Rule = Callable[[Row, Operation, "Context"], tuple[str, str, float] | None]
"""(what, remedy, seconds saved at most) for a task that the rule is about."""


@dataclass(frozen=True, slots=True)
class Context:
    """What rules know beside a task: the largest tensor that stays in L2, in bytes, and the chip's generation."""

    l2_size: int
    generation: str


def explain(profile: Profile, hazards: Iterable[tuple[str, str]] = ()) -> tuple[Advice, ...]:
    """Advice for a profile, the largest gain first; `hazards` are (operation, sentence) about precision."""
    chip = get_chip(profile.subject.target)
    context = Context(chip.limits.l2_size, profile.rates.generation)
    found = [*_whole(profile), *_tasks(profile, context)]
    found += [Advice(operation, sentence, "see the compilation's concerns") for operation, sentence in hazards]
    return tuple(sorted(found, key=lambda advice: -(advice.gain or 0.0)))


def _whole(profile: Profile) -> Iterator[Advice]:
    """About the model rather than one task."""
    calls = profile.dispatch * len(profile.programs)
    for label in profile.subject.host:
        yield Advice(label, "runs on the host: the engine waits, and tensors are repacked twice",
                     "write it with operations of 'ane ops'; each host step splits the model", profile.dispatch or None)
    if calls > profile.engine_seconds:
        yield Advice("dispatch", f"handing programs over takes {calls / profile.seconds:.0%} of an inference",
                     "run batches, chain models (device.pipeline) or keep small models on the CPU",
                     calls - profile.dispatch if len(profile.programs) > 1 else None)


def _tasks(profile: Profile, context: Context) -> Iterator[Advice]:
    """One entry per rule and operation of the model."""
    gains: dict[tuple[str, str, str], float] = {}
    for row in profile.rows:
        operation = profile.programs[row.program].tasks[row.task].operation
        for rule in RULES:
            found = rule(row, operation, context)
            if found is not None:
                what, remedy, gain = found
                key = (row.node or f"task {row.task} ({row.operation})", what, remedy)
                gains[key] = gains.get(key, 0.0) + gain
    for (subject, what, remedy), gain in gains.items():
        if gain >= LEAST * profile.seconds:
            yield Advice(subject, what, remedy, gain)


def _without(row: Row, part: Part, left: float = 0.0) -> float:
    """Seconds saved when a part takes only `left` of its time."""
    others = [seconds if known is not part else seconds * left for known, seconds in row.parts.items()]
    return max(0.0, row.seconds - max(others, default=0.0)) if row.bound is part else 0.0


def copies(row: Row, operation: Operation, context: Context) -> tuple[str, str, float] | None:
    """A task that only moves elements."""
    if not isinstance(operation, PassThrough) or operation.post != Post() or operation.input_relu:
        return None
    return ("moves elements and computes nothing", "keep one layout: fewer transposes, concatenations and slices of "
            "the last axis, channels before rows", row.seconds)


def beyond_l2(row: Row, operation: Operation, context: Context) -> tuple[str, str, float] | None:
    """Operands or results larger than the chip keeps in L2."""
    accesses = (*sources(operation), operation.result)
    largest = max((a.elements * a.dtype.size for a in accesses if a.space is Space.MEMORY), default=0)
    if row.bound is not Part.TILE or largest < context.l2_size:
        return None
    return (f"waits for memory: tensors of {context.l2_size / 2**20:g} MiB and more do not stay in L2",
            "smaller resolution, batch or tiles, so that they stay on the chip",
            _without(row, Part.TILE))


def through_memory(row: Row, operation: Operation, context: Context) -> tuple[str, str, float] | None:
    """Operands that would fit L2 but come from or go to memory."""
    accesses = (*sources(operation), operation.result)
    largest = max((a.elements * a.dtype.size for a in accesses if a.space is Space.MEMORY), default=0)
    if row.bound is not Part.TILE or not 0 < largest < context.l2_size:
        return None
    return ("waits for operands or results in memory", "inputs and outputs of the model always are there, and what L2 "
            "has no room for beside its neighbours: smaller tensors, fewer that live at once (residuals)",
            _without(row, Part.TILE))


def part_pass(row: Row, operation: Operation, context: Context) -> tuple[str, str, float] | None:
    """Output channels just over a pass of the array."""
    if not isinstance(operation, NeuralOperation) or row.bound is not Part.MULTIPLY:
        return None
    channels = operation.result.shape[1]
    passes = ceil(channels / PASS)
    if channels <= PASS or channels % PASS == 0:
        return None
    wasted = 1 - channels / (passes * PASS)
    return (f"{channels} output channels take {passes} passes of {PASS}, the last one not full",
            f"{(passes - 1) * PASS} or {passes * PASS} channels cost as much per channel at most", row.seconds * wasted)


def coefficients(row: Row, operation: Operation, context: Context) -> tuple[str, str, float] | None:
    """Weights that take longer to fetch than to use."""
    if row.bound is not Part.KERNEL or not isinstance(operation, NeuralOperation) or operation.coefficients is None \
            or operation.coefficients.packing is not Packing.DENSE or not operation.coefficients.weights:
        return None
    return ("waits for its weights", "larger batches use each weight more often; palettes and sparse weights where "
            "they are streamed compressed (Apple's compiler does, openane folds them)",
            _without(row, Part.KERNEL, PALETTE))


def narrow_rows(row: Row, operation: Operation, context: Context) -> tuple[str, str, float] | None:
    """Rows that fill a small part of the bursts they move in."""
    if row.bound is not Part.TILE:
        return None
    accesses = [a for a in (*sources(operation), operation.result) if a.space is Space.MEMORY]
    used = sum(a.elements * a.dtype.size for a in accesses)
    if not accesses or used * 2 > row.tile_bytes:
        return None
    return (f"moves {row.tile_bytes / max(used, 1):.1f} times the bytes it needs: rows are short of {BURST} bytes",
            "make the last axis the long one (32 fp16 elements or a multiple)",
            _without(row, Part.TILE, used / row.tile_bytes))


def table_alone(row: Row, operation: Operation, context: Context) -> tuple[str, str, float] | None:
    """An activation that was not fused into the operation before it."""
    if not isinstance(operation, PassThrough) or operation.post.activation is Activation.NONE:
        return None
    return ("an activation that is a task of its own", "directly after a convolution or matrix product with constant "
            "weights it costs nothing", row.seconds)


RULES: Sequence[Rule] = (copies, beyond_l2, through_memory, part_pass, coefficients, narrow_rows, table_alone)
