"""Generations of the engine, h11 to h18: tables, limits, and translation between tasks and engine operations."""

from __future__ import annotations

from importlib import import_module

from openane.chips.chip import Breach, Chip, EmittedTask, Limits, Link, Passage, Rule, Slots, TaskFields
from openane.errors import UnsupportedError

KNOWN = ("h13",)


def get_chip(name: str) -> Chip:
    """The generation called `name` (`h13`). UnsupportedError lists the known ones."""
    if name not in KNOWN:
        raise UnsupportedError(f"target {name!r}", "the generation must be one openane describes",
                               limit=", ".join(KNOWN), found=name)
    chip: Chip = import_module(f"openane.chips.{name}").CHIP
    return chip


__all__ = ["KNOWN", "Breach", "Chip", "EmittedTask", "Limits", "Link", "Passage", "Rule", "Slots", "TaskFields",
           "get_chip"]
