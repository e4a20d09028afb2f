"""What the doctor says of machines that are described here, not of the one the test runs on."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from openane.cli import main
from openane.doctor import Check, Status, ThisMachine, examine
from openane.doctor.everywhere import EXTRAS

LINUX = {"/proc/sys/kernel/osrelease": b"6.14.2-asahi\n", "/proc/modules": b"ane 40960 0 - Live\nxfs 1 0\n",
         "/proc/device-tree/compatible": b"apple,j274\0apple,t8103\0apple,arm-platform\0",
         "/proc/sys/kernel/seccomp/actions_avail": b"kill_process user_notif allow\n"}
MAC = {("sw_vers", "-productVersion"): "26.5", ("sw_vers", "-buildVersion"): "25F70",
       ("sysctl", "-n", "kern.hv_vmm_present"): "0", ("sysctl", "-n", "machdep.cpu.brand_string"): "Apple M1 Max",
       ("ioreg", "-r", "-c", "H11ANEIn", "-d", "1"): "+-o H11ANE <class H11ANEIn>",
       ("csrutil", "status"): "System Integrity Protection status: enabled."}
FRAMEWORK = "/System/Library/PrivateFrameworks/AppleNeuralEngine.framework"


@dataclass
class Described:
    """See `openane.doctor.Machine`."""

    system: str
    architecture: str = "arm64"
    python: tuple[int, int] = (3, 12)
    executable: str = "/usr/bin/python3"
    packages: dict[str, str] = field(default_factory=lambda: {"numpy": "2.1"})
    files: dict[str, bytes] = field(default_factory=dict)
    locked: tuple[str, ...] = ()
    commands: dict[tuple[str, ...], str] = field(default_factory=dict)

    def package(self, name: str) -> str | None:
        return self.packages.get(name)

    def read(self, path: str) -> bytes | None:
        return self.files.get(path)

    def exists(self, path: str) -> bool:
        return path in self.files or path in self.locked or path == "/"

    def may(self, path: str, write: bool = True) -> bool:
        return path not in self.locked

    def output(self, *command: str) -> str | None:
        return self.commands.get(command)

    def folder(self, variable: str) -> str:
        return ""


def found(machine: Described) -> dict[str, Check]:
    return {check.name: check for check in examine(machine)}


def test_every_extra_is_listed_with_all_it_installs() -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    extras = {extra: {re.split(r"[><=; ]", each)[0] for each in wanted}
              for extra, wanted in project["optional-dependencies"].items()
              if extra not in ("dev", "docs", "full", "release")}
    assert {package for package, _, _ in EXTRAS} == set().union(*extras.values())
    assert {extra for _, extra, _ in EXTRAS} == set(extras)
    assert all(package in extras[extra] for package, extra, _ in EXTRAS)
    checks = found(Described("Linux"))
    for package, extra, purpose in EXTRAS:
        assert checks[package].status is Status.NOTE
        assert purpose in checks[package].found
        assert f"[{extra}]" in checks[package].remedy


def test_devices_are_numbered_by_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = {"/dev/accel/accel0": "rocket", "/dev/accel/accel1": "ane", "/dev/accel/accel2": "ane"}
    monkeypatch.setattr("openane.doctor.linux._driver_of", nodes.get)
    checks = found(Described("Linux", "aarch64", files=LINUX | dict.fromkeys(nodes, b"")))
    assert [checks[path].found for path in nodes] == [
        "belongs to the driver 'rocket', not to 'ane'", "--device linux:0", "--device linux:1"]


def test_an_asahi_machine_that_lacks_only_permission() -> None:
    checks = found(Described("Linux", "aarch64", files=LINUX, locked=("/dev/accel/accel0",)))
    assert {name for name, check in checks.items() if check.status is Status.MISSING} == {"/dev/accel/accel0"}
    assert "udev" in checks["/dev/accel/accel0"].remedy
    assert checks["engine"].found == "M1 (apple,t8103), H13"


@pytest.mark.parametrize(("files", "name", "remedy"), [
    ({"/proc/sys/kernel/osrelease": b"5.15.0"}, "kernel", "Linux 6.2"),
    ({"/proc/device-tree/compatible": b"apple,t8112\0"}, "engine", "M1, M1 Pro and M1 Max"),
    ({"/proc/modules": b""}, "driver", "build and load it"),
    ({"/proc/sys/kernel/seccomp/actions_avail": b"allow"}, "simdriver", "driver=simulated"),
])
def test_each_thing_that_linux_can_lack(files: dict[str, bytes], name: str, remedy: str) -> None:
    check = found(Described("Linux", "aarch64", files=LINUX | files))[name]
    assert check.status is Status.MISSING
    assert remedy in check.remedy


def test_a_module_that_is_not_loaded() -> None:
    machine = Described("Linux", "aarch64", files=LINUX | {"/proc/modules": b"xfs 1\n"},
                        commands={("modinfo", "ane"): "filename: ane.ko"})
    assert found(machine)["driver"].remedy == "sudo modprobe ane"


def test_another_machine_is_told_what_it_can_do() -> None:
    checks = found(Described("Linux", "x86_64", files={"/proc/sys/kernel/osrelease": b"6.8.0"}))
    assert checks["engine"].status is Status.NOTE
    assert "simulated" in checks["engine"].remedy


def test_a_mac_that_has_everything() -> None:
    checks = found(Described("Darwin", files={FRAMEWORK: b""}, commands=MAC))
    assert not [check for check in checks.values() if check.status is Status.MISSING]
    assert checks["SIP"].found == "enabled"


@pytest.mark.parametrize(("commands", "architecture", "name", "remedy"), [
    ({("sysctl", "-n", "sysctl.proc_translated"): "1"}, "x86_64", "architecture", "arm64 Python"),
    ({("sw_vers", "-productVersion"): "13.1"}, "arm64", "system", "macOS 15"),
    ({("sysctl", "-n", "kern.hv_vmm_present"): "1"}, "arm64", "virtual machine", "simulator"),
    ({("ioreg", "-r", "-c", "H11ANEIn", "-d", "1"): ""}, "arm64", "engine", "driver"),
])
def test_each_thing_that_a_mac_can_lack(commands: dict[tuple[str, ...], str], architecture: str, name: str,
                                        remedy: str) -> None:
    check = found(Described("Darwin", architecture, files={FRAMEWORK: b""}, commands=MAC | commands))[name]
    assert check.status is Status.MISSING
    assert remedy in check.remedy


def test_weakened_protection_is_noted() -> None:
    commands = MAC | {("nvram", "boot-args"): "boot-args\tamfi_get_out_of_my_way=1",
                      ("csrutil", "status"): "System Integrity Protection status: disabled.",
                      ("codesign", "-d", "--entitlements", "-", "/usr/bin/python3"):
                          "[Key] com.apple.ane.iokit-user-access"}
    checks = found(Described("Darwin", files={FRAMEWORK: b""}, commands=commands))
    assert [checks[name].status for name in ("amfi", "SIP", "entitlement")] == [Status.NOTE] * 3
    assert "nvram -d boot-args" in checks["amfi"].remedy


def test_old_python_and_missing_numpy() -> None:
    checks = found(Described("Plan9", python=(3, 9), packages={}))
    assert checks["Python"].status is checks["numpy"].status is Status.MISSING


def test_this_machine_is_asked_without_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    machine = ThisMachine()
    assert machine.output("no-such-command-anywhere") is None
    assert machine.read("/no/such/file") is None
    assert main(["doctor"]) in (0, 1)
    assert "simulator" in capsys.readouterr().out
