"""Names of devices on the command line: which one is meant, and what a name says of the programs it takes."""

from __future__ import annotations

import os

from openane.chips import driver_generation, generations, get_chip
from openane.devices import DEFAULT, VARIABLE
from openane.devices.options import parts

SIMULATOR, LINUX = "simulator", "linux"


def device_name(device: str | None, arithmetic: str | None = None) -> str:
    """The device to open, the arithmetic asked for added to its options."""
    name = device or os.environ.get(VARIABLE) or DEFAULT
    return name if arithmetic is None else f"{name}{'&' if '?' in name else '?'}arithmetic={arithmetic}"


def device_chip(name: str) -> str | None:
    """The generation whose programs a device called so takes, where its name says so: the simulator of one generation,
    and the engine behind the Linux driver."""
    kind, target, _ = parts(name)
    if kind == LINUX:
        return driver_generation()
    return target if kind == SIMULATOR and target in generations() and get_chip(target).facts.compiled else None
