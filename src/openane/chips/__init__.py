"""Generations of the engine, h11 to h18: tables, limits, and translation between tasks and engine operations."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from openane.chips.chip import Breach, Chip, EmittedTask, Limits, Link, Passage, Rule, Slots, TaskFields
from openane.errors import UnsupportedError

if TYPE_CHECKING:
    from openane.chips.machines import Found

KNOWN = ("h13", "h14", "h15", "h16", "h17", "h18")
"""Generations whose tasks are described."""

RECOGNISED = ("h11", "h12")
"""Generations that are known by name only."""


def get_chip(name: str) -> Chip:
    """The generation called `name` (`h13`). UnsupportedError lists the known ones."""
    if name not in KNOWN + RECOGNISED:
        raise UnsupportedError(f"target {name!r}", "the generation must be one openane describes",
                               limit=", ".join(KNOWN), found=name)
    chip: Chip = import_module(f"openane.chips.{name}").CHIP
    return chip


def find(name: str) -> Found:
    """What a machine (`MacBook Air 2022`), chip (`m2`) or generation (`h14`) name stands for; UnsupportedError names
    what is near."""
    from openane.chips import machines

    return machines.find(name)


__all__ = ["KNOWN", "RECOGNISED", "Breach", "Chip", "EmittedTask", "Limits", "Link", "Passage", "Rule", "Slots",
           "TaskFields", "find", "get_chip"]
