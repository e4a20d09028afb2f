"""Checks of a Mac: architecture, system, the private framework, protection (SIP), entitlement, folders, the engine.

Compiling and running through the framework's in-memory models needs no entitlement and works with System Integrity
Protection on; only opening the kernel driver directly needs com.apple.ane.iokit-user-access. Virtual machines have no
engine. Published by others; none of it was run for this project.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from openane.doctor.check import Check, Status
from openane.doctor.machine import Machine

AREA = "macos"
OLDEST = 15
VERIFIED_E5RT = (26,)
ENTITLEMENT = "com.apple.ane.iokit-user-access"
FRAMEWORK = "/System/Library/PrivateFrameworks/AppleNeuralEngine.framework"


def check_macos(machine: Machine) -> Iterator[Check]:
    """From the processor up to the folders the system's compiler writes."""
    yield _architecture(machine)
    yield _system(machine)
    yield _virtual(machine)
    yield _engine(machine)
    yield _framework(machine)
    yield _protection(machine)
    yield _entitlement(machine)
    yield _boot_arguments(machine)
    yield _folder(machine)


def _architecture(machine: Machine) -> Check:
    if machine.architecture == "arm64":
        return Check(AREA, "architecture", Status.OK, "arm64")
    if machine.output("sysctl", "-n", "sysctl.proc_translated") == "1":
        return Check(AREA, "architecture", Status.MISSING, "Python runs translated, as x86_64",
                     "use an arm64 Python: the framework's classes differ for translated programs")
    return Check(AREA, "architecture", Status.MISSING, machine.architecture, "only Apple silicon has an engine")


def _system(machine: Machine) -> Check:
    text = machine.output("sw_vers", "-productVersion")
    major = re.match(r"\d+", text or "")
    if text is None or major is None:
        return Check(AREA, "system", Status.UNKNOWN, "sw_vers says nothing")
    build = machine.output("sw_vers", "-buildVersion") or "?"
    if int(major[0]) < OLDEST:
        return Check(AREA, "system", Status.MISSING, f"macOS {text} ({build})", f"known from macOS {OLDEST} on")
    if int(major[0]) not in VERIFIED_E5RT:
        return Check(AREA, "system", Status.NOTE, f"macOS {text} ({build})",
                     f"the e5rt route is verified for macOS {', '.join(map(str, VERIFIED_E5RT))}: use route=memory")
    return Check(AREA, "system", Status.OK, f"macOS {text} ({build})")


def _virtual(machine: Machine) -> Check:
    if machine.output("sysctl", "-n", "kern.hv_vmm_present") == "1":
        return Check(AREA, "virtual machine", Status.MISSING, "yes", "virtual Macs have no engine: use the simulator")
    return Check(AREA, "virtual machine", Status.OK, "no")


def _engine(machine: Machine) -> Check:
    found = machine.output("ioreg", "-r", "-c", "H11ANEIn", "-d", "1")
    chip = machine.output("sysctl", "-n", "machdep.cpu.brand_string") or "unknown chip"
    if found is None:
        return Check(AREA, "engine", Status.UNKNOWN, chip)
    if not found:
        return Check(AREA, "engine", Status.MISSING, f"{chip}: no H11ANEIn in the registry",
                     "without the driver nothing reaches the engine: use the simulator")
    return Check(AREA, "engine", Status.OK, chip)


def _framework(machine: Machine) -> Check:
    # The binary is in the shared cache; only the folder is in the file system.
    if machine.exists(FRAMEWORK):
        return Check(AREA, "framework", Status.OK, FRAMEWORK)
    return Check(AREA, "framework", Status.MISSING, f"no {FRAMEWORK}", "the macos device needs it")


def _protection(machine: Machine) -> Check:
    text = machine.output("csrutil", "status")
    if text is None:
        return Check(AREA, "SIP", Status.UNKNOWN, "csrutil says nothing")
    state = text.rpartition(":")[2].strip(" .") or text
    return Check(AREA, "SIP", Status.NOTE, state,
                 "leave it on: the routes openane uses work with it" if "disabled" in state else "")


def _entitlement(machine: Machine) -> Check:
    text = machine.output("codesign", "-d", "--entitlements", "-", machine.executable)
    if text is not None and ENTITLEMENT in text:
        return Check(AREA, "entitlement", Status.NOTE, f"Python has {ENTITLEMENT}",
                     "openane does not use it; only programs that open the kernel driver do")
    return Check(AREA, "entitlement", Status.OK, "none, and none is needed")


def _boot_arguments(machine: Machine) -> Check:
    text = machine.output("nvram", "boot-args") or ""
    if "amfi_get_out_of_my_way" in text:
        return Check(AREA, "amfi", Status.NOTE, "signature checks are off (amfi_get_out_of_my_way)",
                     "not needed by openane, and it weakens every program's protection: "
                     "sudo nvram -d boot-args turns them on")
    return Check(AREA, "amfi", Status.OK, "signature checks are on")


def _folder(machine: Machine) -> Check:
    folder = machine.folder("TMPDIR") or "/tmp"
    if machine.may(folder):
        return Check(AREA, "temporary folder", Status.OK, folder)
    return Check(AREA, "temporary folder", Status.MISSING, f"{folder} cannot be written",
                 "the system's compiler reads the model from there: set TMPDIR")
