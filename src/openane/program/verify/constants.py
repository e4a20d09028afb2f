"""New constants for a program that was verified before.

Where a task reads and writes depends on its words alone. So dense coefficients and tensors among the constants may
hold any numbers, and a verified program with others is as safe as it was. Two kinds of constants have a form of their
own, which the engine follows: activation tables, and the lengths and masks of zero-skipping streams. Where their bytes
change they are looked at again. (Palettes would be a third kind: the verifier takes no program that has them.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from openane.engine import Coefficients, Packing
from openane.program.model import Constants, Program
from openane.program.patch import ByteRange, meets
from openane.program.verify import coefficients
from openane.program.verify.context import VerifyContext
from openane.program.verify.violation import Violation, violation


class ConstantRules:
    """What must hold of the constants of a verified program."""

    def __init__(self, program: Program) -> None:
        """UnsupportedError when the program's chip is not described."""
        context = VerifyContext.of(program)
        formed = tuple(view for view in context.tasks if view.coefficients is not None
                       and _formed(view.coefficients, context.slots.constants))
        self._context = replace(context, tasks=formed, operations=())

    def violations(self, constants: Constants, ranges: Sequence[ByteRange]) -> tuple[Violation, ...]:
        """The rules that constants of the same size break, of which the bytes `ranges` are others than those that were
        verified (ascending)."""
        touched = tuple(view for view in self._context.tasks if view.coefficients is not None and any(
            meets(ranges, stream.offset, stream.offset + stream.size)
            for section in view.coefficients.sections for stream in section.streams))
        if not touched:
            return ()
        context = replace(self._context, program=replace(self._context.program, constants=constants), tasks=touched)
        rule = coefficients.known_coefficients
        return tuple(violation(task, breach, rule) for task, breach in rule(context))


def _formed(held: Coefficients, constants: int) -> bool:
    """Whether coefficients are constants that are more than numbers."""
    formed = held.sections if held.packing is not Packing.DENSE else (held.table,)
    return any(section is not None and section.slot == constants for section in formed)
