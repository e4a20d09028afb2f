"""What the verifier says: one record per broken rule."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict
from inspect import cleandoc
from typing import Any

from openane.chips import Breach
from openane.record_classes import dataclass


@dataclass(frozen=True, slots=True)
class Violation:
    """A broken rule: the task (None where it is about the whole program), the register and field or the part of the
    program, its value, what is allowed, the rule's name and its sentence."""

    task: int | None
    field: str
    value: object
    limit: object
    rule: str
    sentence: str

    def __str__(self) -> str:
        place = "program" if self.task is None else f"task {self.task}"
        return f"{place}: {self.field} is {self.value}, allowed is {self.limit}: {self.sentence} [{self.rule}]"

    def as_dict(self) -> dict[str, Any]:
        """Plain data; values that are neither numbers nor text become text."""
        return {key: value if isinstance(value, int | str | None) else str(value)
                for key, value in asdict(self).items()}


Found = Iterator[tuple[int | None, Breach]]
"""What a rule of this package yields: the task, if any, and the breach."""


def sentence(rule: Callable[..., object]) -> str:
    """The sentence of a rule: its docstring, in one line."""
    return " ".join(cleandoc(rule.__doc__ or "").split())


def violation(task: int | None, breach: Breach, rule: Callable[..., object]) -> Violation:
    """The record for one breach of `rule`."""
    return Violation(task, breach.field, breach.value, breach.limit, rule.__name__, sentence(rule))
