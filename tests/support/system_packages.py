"""Debian's packages for the whole suite: installed where one may, else named with the tests that are left out.

`python tests/support/system_packages.py` needs nothing but Python; `make test-full` calls it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Provided:
    """What packages of Debian bring: how a machine that has it is known, and their names."""

    there: Callable[[], bool]
    packages: tuple[str, ...]

    @property
    def remedy(self) -> str:
        """The line that installs it."""
        return f"apt-get install {' '.join(self.packages)}"


def programs(*names: str) -> Callable[[], bool]:
    """Whether all these programs are on the PATH."""
    return lambda: all(shutil.which(name) for name in names)


def objective_c() -> bool:
    """Whether GCC compiles Objective-C and GNUstep's Foundation is there."""
    if not programs("gcc", "gnustep-config")():
        return False
    found = subprocess.run(["gcc", "-print-prog-name=cc1obj"], capture_output=True, text=True, check=False)
    return Path(found.stdout.strip()).is_absolute()


SYSTEM = {
    "mpirun": Provided(programs("mpirun"), ("openmpi-bin",)),
    "chromium": Provided(programs("chromium", "chromedriver"), ("chromium", "chromium-driver")),
    "objective-c": Provided(objective_c, ("gcc", "gobjc", "libgnustep-base-dev")),
}


def privilege() -> list[str] | None:
    """The words that go before apt-get, or None where one may not install packages."""
    if shutil.which("apt-get") is None:
        return None
    if os.geteuid() == 0:
        return []
    sudo = ["sudo", "-n"]
    may = shutil.which("sudo") and subprocess.run([*sudo, "true"], capture_output=True, check=False).returncode == 0
    return sudo if may else None


def install(packages: list[str], front: list[str]) -> int:
    """The status of apt-get; what it says is shown where it fails."""
    options = ["-o", "Dpkg::Use-Pty=0", "-qq"]
    for words in (["update"], ["install", "--yes", "--no-install-recommends", *packages]):
        done = subprocess.run([*front, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", *options, *words],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.stderr.write(done.stdout + done.stderr)
            return done.returncode
    return 0


def main() -> int:
    """Installs what is missing."""
    missing = {name: provided for name, provided in SYSTEM.items() if not provided.there()}
    packages = sorted({package for provided in missing.values() for package in provided.packages})
    front = privilege()
    if missing and front is None:
        for name, provided in missing.items():
            sys.stderr.write(f"tests that need {name} are left out: {provided.remedy}\n")
    elif missing and front is not None:
        sys.stderr.write(f"installing {' '.join(packages)} (once)\n")
        return install(packages, front)
    return 0


if __name__ == "__main__":
    sys.exit(main())
