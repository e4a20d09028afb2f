"""Where programs run: `open_device("simulator")`, numpy arrays in and out.

A device is named by a string `KIND[:TARGET][?OPTION=VALUE&...]`: `simulator`, `simulator:h13?arithmetic=exact`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from urllib.parse import parse_qsl

import numpy as np

from openane.devices.protocol import CompiledModel, Device, DeviceInfo, Executable
from openane.devices.simulator import SimulatorDevice
from openane.errors import DeviceError
from openane.program import Program

KINDS = {"simulator": SimulatorDevice}
DEFAULT = "simulator"
VARIABLE = "ANE_DEVICE"


def open_device(name: str | None = None) -> Device:
    """The device called `name`, or the one $ANE_DEVICE names, or the simulator. Use it in a `with` statement.

    DeviceError lists the known kinds or options when the name is not understood.
    """
    name = name or os.environ.get(VARIABLE) or DEFAULT
    place, _, query = name.partition("?")
    kind, _, target = place.partition(":")
    if kind not in KINDS:
        raise DeviceError(f"no device is called {name!r}; devices are {', '.join(KINDS)}")
    try:
        options = dict(parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query)))
    except ValueError:
        raise DeviceError(f"the options of device {name!r} must be written ?NAME=VALUE&NAME=VALUE") from None
    return KINDS[kind].open(target, options)


def run(program: Program | CompiledModel, inputs: Mapping[str, np.ndarray],
        device: str | None = None) -> dict[str, np.ndarray]:
    """Runs a program or a compiled model once: arrays by input name to arrays by output name.

    `device` is by default what $ANE_DEVICE names, or the simulator. To run many times, load once:
    `open_device(...).load(program)`.
    """
    with open_device(device) as opened, opened.load(program) as executable:
        return executable.run(inputs)


__all__ = ["Device", "DeviceInfo", "Executable", "open_device", "run"]
