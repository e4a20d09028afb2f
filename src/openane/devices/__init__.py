"""Where programs run: `open_device("simulator")`, numpy arrays in and out.

A device is named by a string `KIND[:TARGET][?OPTION=VALUE&...]`: `simulator`, `simulator:h13?arithmetic=exact`,
`linux:0`, `linux?driver=simulated&mode=strict`, `macos?runtime=simulated`. A kind is a module of this package that is
imported when it is asked for; it offers `open_kind(target, options)` and `discover()`.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from importlib import import_module
from typing import Protocol, cast

import numpy as np

from openane.devices.options import parts
from openane.devices.protocol import Device, DeviceInfo, Executable, LoadableModel
from openane.errors import DeviceError
from openane.ops.measured_inputs import BeyondRangeWarning, beyond_ranges
from openane.program import Program

KINDS = ("simulator", "linux", "macos")
"""Modules of this package that open devices, by the name devices of the kind begin with."""
DEFAULT = "simulator"
VARIABLE = "ANE_DEVICE"


class DeviceKind(Protocol):
    """A module of `KINDS`."""

    def open_kind(self, target: str, options: Mapping[str, str]) -> Device:
        """The device of a name's parts. DeviceUnavailable says what this machine lacks; DeviceError lists what is
        known when target or options are not understood."""
        ...

    def discover(self) -> tuple[DeviceInfo, ...]:
        """The devices of this kind that this machine has, without using them. Never raises."""
        ...


def open_device(name: str | None = None) -> Device:
    """The device called `name`, or the one $ANE_DEVICE names, or the simulator. Use it in a `with` statement.

    DeviceError lists the known kinds or options when the name is not understood.
    """
    name = name or os.environ.get(VARIABLE) or DEFAULT
    kind, target, options = parts(name)
    if kind not in KINDS:
        raise DeviceError(f"no device is called {name!r}; devices are {', '.join(KINDS)}")
    return _kind(kind).open_kind(target, options)


def discover() -> tuple[DeviceInfo, ...]:
    """Every device this machine has."""
    return tuple(found for kind in KINDS for found in _kind(kind).discover())


def run(program: Program | LoadableModel, inputs: Mapping[str, np.ndarray],
        device: str | None = None) -> dict[str, np.ndarray]:
    """Runs a program or a compiled model once: arrays by input name to arrays by output name.

    `device` is by default what $ANE_DEVICE names, or the simulator. To run many times, load once:
    `open_device(...).load(program)`. BeyondRangeWarning where inputs are much larger than those that the ranges of a
    compiled model were measured on.
    """
    for beyond in beyond_ranges(getattr(program, "metadata", {}), inputs):
        warnings.warn(str(beyond), BeyondRangeWarning, stacklevel=2)
    with open_device(device) as opened, opened.load(program) as executable:
        return executable.run(inputs)


def _kind(name: str) -> DeviceKind:
    return cast(DeviceKind, import_module(f"{__name__}.{name}"))


__all__ = ["BeyondRangeWarning", "Device", "DeviceInfo", "Executable", "discover", "open_device", "run"]
