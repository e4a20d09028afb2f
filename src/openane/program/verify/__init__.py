"""The verifier: proves that a program is safe to run. It looks at the program and changes nothing.

`violations` lists every rule that a program breaks. `verify` refuses a program that breaks one, and otherwise returns
it as a `Verified`, which nothing else can make and which alone is loaded on a device. Each rule is a small function,
and its docstring is the sentence people read when it is broken. The rules listed here are about operands, buffers and
the order of tasks, and ask the chip for its limits. Rules about the registers of a single task differ between
generations: the chip has them (`Chip.rules`).
"""

from __future__ import annotations

from typing import Protocol

from openane.chips import get_chip
from openane.errors import VerifyError
from openane.program.model import Program
from openane.program.sparse_bodies import Follower
from openane.program.verify import chain, coefficients, container, extents, flow, shapes
from openane.program.verify.context import VerifyContext
from openane.program.verify.verified import Verified, digest
from openane.program.verify.verified import seal as _seal
from openane.program.verify.violation import Violation, sentence, violation

RULES = (
    container.slots, container.sizes, container.layouts, container.bound_slots,
    chain.text, chain.links, chain.described,
    extents.extents, extents.bursts, extents.ring_extents, extents.roles, extents.result_elements,
    shapes.limits, shapes.agreeing_shapes, shapes.real_windows, shapes.bounded_work, shapes.handed_over,
    coefficients.stream_extents, coefficients.stream_sizes, coefficients.activation_tables,
    coefficients.known_coefficients,
    flow.own_hazards, flow.neighbour_hazards,
)


def violations(program: Program) -> tuple[Violation, ...]:
    """Every broken rule of a program, those about the whole program first, then task by task.

    UnsupportedError when its chip is not described.
    """
    return _malformed(program) or _violations(VerifyContext.of(program))


class Passed(Protocol):
    """Who remembers which programs have passed this verifier, by `digest`. It must not take anybody else's word."""

    def knows(self, digest: str) -> bool:
        """Whether one has."""
        ...

    def remember(self, digest: str) -> None:
        """One has."""
        ...


def verify(program: Program, passed: Passed | None = None) -> Verified:
    """The program, marked as verified. Rules are not asked again of one that has `passed` before, the same bit for bit:
    its tasks are decoded. VerifyError, a ProgramError, lists all violations as `violations`; UnsupportedError when the
    chip is not described."""
    _require_well_formed(program)
    return _passing(program, digest(program), passed, None)


def verify_now(program: Program, passed: Passed | None = None, follow: Follower | None = None) -> Verified:
    """The same for whoever loads it at once: what passes is `unchanged` only here, so that its digest is not computed
    where nobody remembers it. `follow` says in less time whether zero-skipping bodies are as they must be."""
    _require_well_formed(program)
    return _passing(program, None if passed is None else digest(program), passed, follow)


def _passing(program: Program, number: str | None, passed: Passed | None, follow: Follower | None) -> Verified:
    """The program, whose digest is `number`, where its rules hold."""
    if number is not None and passed is not None and passed.knows(number):
        chip = get_chip(program.chip)
        return _seal(program, tuple(chip.operation(task.words) for task in program.tasks), number)
    context = VerifyContext.of(program, follow)
    found = _violations(context)
    if found:
        raise VerifyError(found)
    if number is not None and passed is not None:
        passed.remember(number)
    return _seal(program, tuple(operation for operation in context.operations if operation is not None), number)


def summary(program: Program) -> dict[str, int]:
    """What was looked at: tasks, memory and L2 accesses, coefficient streams, buffers, bytes of memory."""
    context = VerifyContext.of(program)
    streams = [section.streams for view in context.tasks if view.coefficients is not None
               for section in view.coefficients.sections]
    return {"tasks": len(context.tasks), "accesses": sum(len(view.operands) for view in context.tasks),
            "streams": sum(map(len, streams)), "buffers": len(program.buffers),
            "memory_bytes": len(program.constants) + sum(buffer.size for buffer in program.buffers)}


def _require_well_formed(program: Program) -> None:
    found = _malformed(program)
    if found:
        raise VerifyError(found)


def _malformed(program: Program) -> tuple[Violation, ...]:
    return tuple(violation(task, breach, container.well_formed) for task, breach in container.well_formed(program))


def _violations(context: VerifyContext) -> tuple[Violation, ...]:
    found = [violation(task, breach, rule) for rule in RULES for task, breach in rule(context)]
    found += chain.registers(context) + flow.data_flow(context)
    return tuple(sorted(found, key=lambda v: -1 if v.task is None else v.task))


__all__ = ["RULES", "Passed", "Verified", "Violation", "digest", "sentence", "summary", "verify", "verify_now",
           "violations"]
