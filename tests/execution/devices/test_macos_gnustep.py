"""The macOS bridge over a real Objective-C runtime: GCC's, with GNUstep's Foundation."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support import gnustep_runtime

import openane

pytestmark = pytest.mark.needs("objective-c")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The engine's classes, compiled."""
    return gnustep_runtime.build(tmp_path_factory.mktemp("engine"))


def started(folder: Path, code: list[str]) -> subprocess.CompletedProcess[str]:
    """A process of its own, with its home and temporary files in `folder`."""
    paths = [str(Path(openane.__file__).parents[1]), str(Path(gnustep_runtime.__file__).parents[1])]
    places = dict.fromkeys(("HOME", "TMPDIR", "TEMP", "TMP"), str(folder))
    return subprocess.run([sys.executable, *code], capture_output=True, text=True, timeout=60, check=False,
                          env={**os.environ, **places, "PYTHONPATH": os.pathsep.join(paths)}, cwd=folder)


def asked(library: Path, folder: Path, *orders: dict[str, Any]) -> list[dict[str, Any]]:
    """What a process with the runtime answers to each order; it must not leave files."""
    done = started(folder, [gnustep_runtime.__file__, str(library), *map(json.dumps, orders)])
    assert done.returncode == 0, done.stderr
    assert "autorelease called without pool" not in done.stderr
    assert not [each for each in folder.rglob("*") if each.is_file()]
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [answer["live"] for answer in answers] == [0] * len(orders)
    return answers


def test_every_way_to_run(library: Path, tmp_path: Path) -> None:
    answers = asked(library, tmp_path, *({"path": path, "runs": 20} for path in (1, 2, 3, 4)))
    assert [answer["right"] for answer in answers] == [20] * 4


def test_many_models_and_the_errors_of_some(library: Path, tmp_path: Path) -> None:
    many, broken, spent = asked(library, tmp_path, {"models": 50, "runs": 2}, {"broken": True},
                                {"budget": 2, "models": 3})
    assert many["right"] == 2
    for answer in (broken, spent):
        assert answer["error"] == "DeviceRejected"
        assert "ANECCompile() FAILED" in answer["text"]


WRONG = """
import sys
from pathlib import Path
from support.gnustep_runtime import GnustepSymbols
from openane.devices.macos import interfaces as api
from openane.devices.macos.foundation import Foundation
from openane.devices.macos.objc import ObjC, Selector
from openane.errors import DeviceChanged
symbols = GnustepSymbols(Path(sys.argv[1]))
objc = ObjC(symbols)
known = Foundation(symbols, objc)
with objc.pool():
    for selector in (Selector("noSuchMethod", "@"), Selector("hexStringIdentifier", "Q")):
        try:
            objc.check(api.MODEL, selector)
        except DeviceChanged as error:
            print(error.found, flush=True)
    objc.send(objc.cls(api.DESCRIPTOR), api.FROM_MIL, known.string("program(1.3)"), known.dictionary({}), None)
print("survived")
"""


def test_what_changed_is_told_and_what_is_thrown_ends_the_process(library: Path, tmp_path: Path) -> None:
    done = started(tmp_path, ["-c", f"import resource; resource.setrlimit(resource.RLIMIT_CORE, (0, 0))\n{WRONG}",
                              str(library)])
    assert done.stdout.split("\n")[:2] == ["no such method", "@16@0:8"]
    assert done.returncode != 0
    assert "survived" not in done.stdout
    assert "NSInvalidArgumentException" in done.stderr
