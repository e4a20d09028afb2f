"""Which driver a device name means: an engine's, the simulated one, one that is served, or a trace of one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from openane.devices.linux.connection import Connection, attempt
from openane.devices.linux.drive import drive
from openane.devices.linux.interface import NODE
from openane.devices.linux.kernel import Kernel
from openane.devices.linux.real import RealKernel
from openane.devices.linux.recording import RecordingKernel
from openane.devices.linux.replay import ReplayKernel
from openane.devices.linux.trace import Difference, Trace
from openane.devices.options import choose, parts, refuse_unknown
from openane.devices.other_engine import other_engine
from openane.errors import DeviceError, DeviceUnavailable
from openane.record_classes import dataclass
from openane.simulator import Mode
from openane.timing import SubmissionRoute

SIMULATED = "simulated"
MODES = ("strict", "faithful")
SIMULATIONS = ("mode", "arithmetic", "engine")
DRIVER_CHIP = "m1"
"""Whose clocks and bandwidths a simulated engine with a clock of its own has."""
LISTED = "'ane devices' lists them"


@dataclass(frozen=True, slots=True)
class Opened:
    """A driver to talk to: its node, the device's name, what stands in for an engine (empty for a real one), and what
    is to be done when nobody needs it any more."""

    kernel: Kernel
    path: str
    name: str
    simulated: str = ""
    at_end: Callable[[], None] | None = None

    def close(self) -> None:
        """Does what is to be done at the end."""
        if self.at_end is not None:
            self.at_end()


def open_driver(target: str, options: Mapping[str, str]) -> Opened:
    """The driver of a device name's parts. DeviceUnavailable says what this machine lacks; DeviceError lists what is
    known when the name is not understood; FormatError for a file that is no trace."""
    driver, number = options.get("driver", ""), _number(target)
    known = ("driver", "timeout", "record", *(SIMULATIONS if driver == SIMULATED else ()))
    simulations = [name for name in SIMULATIONS if name in options and name not in known]
    if simulations:
        raise DeviceError(f"{simulations[0]}= belongs to the simulated driver, driver={SIMULATED}; this device has "
                          f"{', '.join(known)}")
    refuse_unknown("the Linux driver", options, known)
    if not driver and "driver" in options:
        raise DeviceError(f"driver= must be {SIMULATED} or the path of a socket or of a trace")
    if not driver:
        opened = open_real(RealKernel(), number)
    elif number:
        raise DeviceError(f"a simulated driver has one engine, linux:0, not linux:{number}")
    elif driver == SIMULATED:
        opened = _simulated(options)
    else:
        opened = _replayed(driver) if os.path.isfile(driver) else _served(driver)
    return _recorded(opened, options["record"]) if "record" in options else opened


def replayed(trace: Trace, device: str, unverified: bool = False) -> Iterator[Difference]:
    """Sends a trace's requests to the driver of a device name (`linux:0`, `linux?driver=simulated`) and gives every
    difference. DeviceError for a name that is no Linux device, and for an engine unless `unverified` says that it may
    execute commands which the verifier has not seen."""
    kind, target, options = parts(device)
    if kind != "linux":
        raise DeviceError(f"a trace is of the Linux driver; {device!r} is none (linux:0, linux?driver=simulated)")
    opened = open_driver(target, options)
    try:
        if not opened.simulated and not unverified:
            raise DeviceError(f"{opened.name} is an engine, and a trace holds commands that nobody has verified: they "
                              "can reach the tensors of everybody else who uses it, and hang it\nhint: replay it on "
                              f"linux?driver={SIMULATED} first; --unverified sends a trace you trust")
        yield from drive(trace, opened.kernel, opened.path)
    finally:
        opened.close()


def engines(kernel: Kernel) -> list[tuple[str, str]]:
    """Path and driver date of every node that is an engine and may be opened."""
    found = []
    try:
        nodes = attempt("finding the nodes", kernel.nodes)
    except DeviceError:
        return []
    for path in nodes:
        try:
            connection = Connection(kernel, path)
            connection.close()
        except DeviceError:
            continue
        found.append((path, connection.date))
    return found


def open_real(kernel: Kernel, number: int) -> Opened:
    """Engine `number` in the order of the nodes. Where none can be identified, the first node's own error says why."""
    found = engines(kernel)
    if number < len(found):
        return Opened(kernel, found[number][0], f"linux:{number}")
    nodes = attempt("finding the nodes", kernel.nodes)
    if not nodes:
        raise DeviceUnavailable(f"there is no {NODE.format(0)}: no driver of an accelerator is loaded",
                                "on Asahi Linux build and load the module 'ane' (eiln/ane), which is not part of the "
                                "kernel; anywhere, 'linux?driver=simulated' runs the simulator behind its interface")
    if not found:
        for path in nodes:
            Connection(kernel, path).close()  # raises what is the matter with it
    raise DeviceUnavailable(f"there is no linux:{number}; engines that can be used here: {len(found)}", LISTED)


def _simulated(options: Mapping[str, str]) -> Opened:
    from openane.devices.simdriver import SimDriver, SimKernel  # only who asks for it pays for it

    mode = choose(options, "mode", MODES, "strict")
    arithmetic = choose(options, "arithmetic", list(Mode), "auto")
    other = other_engine(options.get("engine"), DRIVER_CHIP, SubmissionRoute.LINUX)
    driver = attempt("starting the simulated driver", lambda: SimDriver(mode, arithmetic, other=other))
    return Opened(SimKernel(driver), NODE.format(0), f"linux?driver={SIMULATED}",
                  f"simulated engine, {arithmetic} arithmetic, {mode} mode", driver.close)


def _served(path: str) -> Opened:
    from openane.devices.simdriver.client import SocketKernel

    kernel = SocketKernel(path)
    try:
        node = kernel.nodes()[0]
        Connection(kernel, node).close()
    except DeviceError as error:  # refused, too: the socket of a server that was killed
        found = error.missing if isinstance(error, DeviceUnavailable) else error
        raise DeviceUnavailable(f"no simulated driver is served at {path} ({found})",
                                "'ane simdriver --listen PATH' serves one, or take driver=simulated, which is in this "
                                "process") from None
    return Opened(kernel, node, f"linux?driver={path}", f"simulated engine served at {path}")


def _replayed(path: str) -> Opened:
    trace = Trace(Path(path))
    kernel = ReplayKernel(trace)
    nodes = kernel.nodes()
    return Opened(kernel, nodes[0] if nodes else NODE.format(0), f"linux?driver={path}", f"trace {path}", trace.close)


def _recorded(opened: Opened, path: str) -> Opened:
    """The same driver, everything it is asked written to a trace, which is complete when the device is closed."""
    try:
        recording = RecordingKernel(opened.kernel, Path(path), device=opened.name, simulated=opened.simulated)
    except DeviceError:
        opened.close()
        raise

    def at_end() -> None:
        try:
            recording.finish()
        finally:
            opened.close()
    return replace(opened, kernel=recording, at_end=at_end)


def _number(target: str) -> int:
    number = int(target or "0") if not target or (target.isascii() and target.isdigit() and len(target) < 4) else -1
    if number < 0:
        raise DeviceError(f"a Linux device is called linux:0, linux:1, ..., not linux:{target[:80]}")
    return number
