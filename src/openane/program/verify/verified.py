"""The mark of a program that has passed the verifier."""

from __future__ import annotations

import hashlib
from dataclasses import field

from openane.engine import Operation
from openane.errors import ProgramError
from openane.program.model import Program
from openane.record_classes import dataclass

_TOKEN = object()


@dataclass(frozen=True, slots=True)
class Verified:
    """A program that `verify` has passed, the SHA-256 of exactly what it has looked at, and what its tasks were decoded
    to. Only `verify` makes one. One that is for whoever has asked, at once, has no digest."""

    program: Program
    digest: str | None
    operations: tuple[Operation, ...] = field(repr=False, compare=False)
    token: object = field(repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.token is not _TOKEN:
            raise ProgramError("only openane.program.verify.verify marks a program as verified")

    def unchanged(self) -> bool:
        """Whether the program is still what was verified: to be asked before it is handed to an engine."""
        return digest(self.program) == self.digest


def digest(program: Program) -> str:
    """SHA-256, in hex, of a program's tasks and their places, its constants and its buffers."""
    total = hashlib.sha256(repr((program.chip, program.buffers, len(program.constants), program.kernel_starts,
                                 [(task.offset, len(task.words)) for task in program.tasks])).encode())
    for task in program.tasks:
        total.update(task.data)
    total.update(program.constants)
    return total.hexdigest()


def seal(program: Program, operations: tuple[Operation, ...], known: str | None) -> Verified:
    """For `verify` alone; `known` is the digest."""
    return Verified(program, known, operations, _TOKEN)
