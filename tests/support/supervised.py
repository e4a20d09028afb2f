"""Runs programs under `ane simdriver` and reads its report."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from support.killing import ENVIRONMENT
from support.needs import lacking

SIMDRIVER = (sys.executable, "-m", "openane", "simdriver", "--json")
LONGEST = 60


@dataclass
class Ended:
    """A program that has ended: its status and output, what the driver says, what else stood on stderr."""

    status: int
    output: str
    report: dict[str, Any]
    errors: str

    @property
    def kinds(self) -> list[str]:
        """Kinds of the driver's complaints."""
        return [found["kind"] for found in self.report["reports"]]


def supervised(*command: str, options: Sequence[str] = (), **more: Any) -> Ended:
    """Runs a command to its end; the test is skipped, with the reason, where programs cannot be watched."""
    result = subprocess.run([*SIMDRIVER, *options, "--", *command], env=ENVIRONMENT, capture_output=True, text=True,
                            timeout=LONGEST, check=False, stdin=subprocess.DEVNULL, **more)
    return ended(result.returncode, result.stdout, result.stderr)


def ended(status: int, output: str, errors: str) -> Ended:
    """What a supervisor that has ended has said."""
    *lines, last = errors.splitlines() or [""]
    if not last.startswith("{"):
        if "hint: our own programs reach the same driver without it" in errors:
            lacking("supervision", errors)
        pytest.fail(f"status {status}, no report:\n{errors}")
    return Ended(status, output, json.loads(last), "\n".join(lines))


def client(text: str, *arguments: str, **more: Any) -> Ended:
    """Runs a Python program, with the names of `accel_client` at hand, and requires that it succeeds."""
    found = supervised(sys.executable, "-c", program(text), *arguments, **more)
    assert found.status == 0, found.errors
    return found


def program(text: str) -> str:
    """The text of such a program."""
    return ("import json, mmap, os, signal, stat, sys, time\nfrom support.accel_client import *\n"
            + textwrap.dedent(text))
