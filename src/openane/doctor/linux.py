"""Checks of a Linux machine: the engine in the device tree, the accel driver, its node, and who may open it.

The driver (eiln/ane) is not part of the kernel: it is built as a module and needs a node in the device tree. Known
compatible strings: apple,t8103-ane (M1) and apple,t6000-ane (M1 Pro and Max).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import count

from openane.devices.linux.interface import DRIVER, NODE, NODES
from openane.devices.linux.real import RealKernel
from openane.doctor.check import Check, Status
from openane.doctor.machine import Machine

AREA = "linux"
TREE = "/proc/device-tree"
ENGINES = {"apple,t8103": "M1", "apple,t6000": "M1 Pro", "apple,t6001": "M1 Max", "apple,t6002": "M1 Ultra"}
"""Compatible strings of machines whose engine (H13) the driver knows."""
OLDEST_KERNEL = (6, 2)
DRIVER_SOURCE = "https://github.com/eiln/ane"


def check_linux(machine: Machine) -> Iterator[Check]:
    """From the machine up to the node."""
    yield _kernel(machine)
    yield _engine(machine)
    yield _module(machine)
    yield from _nodes(machine)
    yield _supervision(machine)


def _kernel(machine: Machine) -> Check:
    text = (machine.read("/proc/sys/kernel/osrelease") or b"").decode(errors="replace").strip()
    version = re.match(r"(\d+)\.(\d+)", text)
    if version is None:
        return Check(AREA, "kernel", Status.UNKNOWN, text or "no version")
    if (int(version[1]), int(version[2])) < OLDEST_KERNEL:
        return Check(AREA, "kernel", Status.MISSING, text, "the accel subsystem came with Linux 6.2")
    return Check(AREA, "kernel", Status.OK, text)


def _engine(machine: Machine) -> Check:
    compatible = (machine.read(f"{TREE}/compatible") or b"").decode(errors="replace").split("\0")
    for name in compatible:
        if name in ENGINES:
            return Check(AREA, "engine", Status.OK, f"{ENGINES[name]} ({name}), H13")
    apple = [name for name in compatible if name.startswith("apple,")]
    if apple:
        return Check(AREA, "engine", Status.MISSING, f"{', '.join(apple)}: no engine the driver knows",
                     "the driver knows M1, M1 Pro and M1 Max; compile for the engine here and run on the simulator")
    return Check(AREA, "engine", Status.NOTE, f"no Apple silicon ({machine.architecture})",
                 "programs run on the simulator; --device 'linux?driver=simulated' has the driver's behaviour as well")


def _module(machine: Machine) -> Check:
    loaded = re.search(rf"^{DRIVER} ", (machine.read("/proc/modules") or b"").decode(errors="replace"), re.MULTILINE)
    if loaded:
        return Check(AREA, "driver", Status.OK, "module ane is loaded")
    if machine.output("modinfo", DRIVER) is not None:
        return Check(AREA, "driver", Status.MISSING, "module ane is installed but not loaded", "sudo modprobe ane")
    return Check(AREA, "driver", Status.NOTE if machine.architecture != "aarch64" else Status.MISSING,
                 "no module ane", f"build and load it from {DRIVER_SOURCE}")


def _nodes(machine: Machine) -> Iterator[Check]:
    paths = [NODE.format(number) for number in range(NODES) if machine.exists(NODE.format(number))]
    if not paths:
        yield Check(AREA, "node", Status.NOTE, f"no {NODE.format('N')}", "it appears when the driver is loaded")
    engines = count()  # devices are numbered by engine, not by node
    for path in paths:
        if not machine.may(path):
            yield Check(AREA, path, Status.MISSING, "this user may not open it",
                        f"sudo chmod 666 {path}, or a udev rule: SUBSYSTEM==\"accel\", GROUP=\"render\", MODE=\"0660\" "
                        "(whoever may open it can reach the memory of every other user of the engine)")
            continue
        name = _driver_of(path)
        if name is None:
            yield Check(AREA, path, Status.UNKNOWN, "it does not say which driver it belongs to")
        elif name == DRIVER:
            yield Check(AREA, path, Status.OK, f"--device linux:{next(engines)}")
        else:
            yield Check(AREA, path, Status.NOTE, f"belongs to the driver {name!r}, not to {DRIVER!r}")


def _driver_of(path: str) -> str | None:
    kernel = RealKernel()
    try:
        fd = kernel.open(path)
    except OSError:
        return None
    try:
        return kernel.version(fd)[0]
    except OSError:
        return None
    finally:
        with suppress(OSError):
            kernel.close(fd)


def _supervision(machine: Machine) -> Check:
    actions = (machine.read("/proc/sys/kernel/seccomp/actions_avail") or b"").decode(errors="replace").split()
    if "user_notif" in actions:
        return Check(AREA, "simdriver", Status.OK, "ane simdriver -- COMMAND runs any program against the simulator")
    return Check(AREA, "simdriver", Status.MISSING, "this kernel has no seccomp user notification",
                 "use --device 'linux?driver=simulated', which needs nothing")
