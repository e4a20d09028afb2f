"""Asahi Linux: the accel driver `ane` (eiln/ane), real or simulated.

`linux:0` is the first engine of this machine, `linux?driver=simulated` the simulator behind the same interface in this
process (mode=strict or faithful, arithmetic=auto, exact or fast), `linux?driver=PATH` one that another process serves
at a socket, or a trace that was recorded. timeout=SECONDS limits a submission besides the driver's own second;
record=PATH writes a trace of everything the driver is asked.
"""

from __future__ import annotations

from collections.abc import Mapping

from openane.devices.linux.device import LinuxDevice, describe
from openane.devices.linux.interface import DRIVER
from openane.devices.linux.opening import engines, open_driver, replayed
from openane.devices.linux.real import RealKernel
from openane.devices.options import seconds
from openane.devices.protocol import DeviceInfo


def open_kind(target: str, options: Mapping[str, str]) -> LinuxDevice:
    """See `openane.devices.DeviceKind`."""
    timeout = seconds(options, "timeout", 1.0) if "timeout" in options else None
    opened = open_driver(target, options)
    try:
        return LinuxDevice(opened.kernel, opened.path, opened.name, simulated=opened.simulated, timeout=timeout,
                           at_end=opened.at_end)
    except BaseException:
        opened.close()
        raise


def discover() -> tuple[DeviceInfo, ...]:
    """The engines of this machine: nodes whose driver is called `ane` and that may be opened."""
    found = enumerate(engines(RealKernel()))
    return tuple(describe(f"linux:{index}", path, date, "") for index, (path, date) in found)


__all__ = ["DRIVER", "LinuxDevice", "discover", "open_kind", "replayed"]
