"""Generations of the engine, a folder each: tables, limits, and translation between tasks and engine operations."""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

from openane.chips.chip import Breach, Chip, EmittedTask, NamedSlots, Passage, Rule, TaskFields, TaskLink
from openane.chips.limits import Limits
from openane.errors import UnsupportedError

DEFAULT_TARGET = "h13"
"""The generation programs are compiled for where nobody names another."""


def generations() -> tuple[str, ...]:
    """Every generation that has a folder here, oldest first."""
    return _generations_in(tuple(__path__))


@cache
def _generations_in(folders: tuple[str, ...]) -> tuple[str, ...]:
    names = (module.name for module in iter_modules(folders))
    return tuple(sorted(name for name in names if re.fullmatch(r"h\d+", name)))


def described_generations() -> tuple[str, ...]:
    """Generations whose tasks are described: those whose folder has register tables."""
    return tuple(name for name in generations() if _described(name))


def recognised_generations() -> tuple[str, ...]:
    """Generations that are known by name only."""
    return tuple(name for name in generations() if not _described(name))


def compiled_generations() -> tuple[str, ...]:
    """Generations that programs are compiled for, oldest first."""
    return tuple(name for name in generations() if get_chip(name).facts.compiled)


def _described(name: str) -> bool:
    return _described_in(name, tuple(__path__))


@cache
def _described_in(name: str, folders: tuple[str, ...]) -> bool:
    return any((Path(folder) / name / "registers.py").exists() for folder in folders)


def get_chip(name: str) -> Chip:
    """The generation called `name` (`h13`). UnsupportedError lists the known ones."""
    if name not in generations():
        raise UnsupportedError(f"target {name!r}", "the generation must be one openane describes",
                               limit=", ".join(described_generations()), found=name)
    chip: Chip = import_module(f"{__name__}.{name}").CHIP
    return chip


def driver_generation() -> str:
    """The generation whose programs the Linux driver runs, which its files do not name."""
    return next(name for name in described_generations() if get_chip(name).facts.driver)


def generation_of(subtype: int) -> str | None:
    """The generation whose files state this CPU subtype, None where no known one does."""
    return next((name for name in generations() if get_chip(name).facts.subtype == subtype), None)


__all__ = ["DEFAULT_TARGET", "Breach", "Chip", "EmittedTask", "Limits", "NamedSlots", "Passage", "Rule",
           "TaskFields", "TaskLink", "compiled_generations", "described_generations", "driver_generation",
           "generation_of", "generations", "get_chip", "recognised_generations"]
