"""What tests need and may skip for: the plugin in runs of its own, the list, and the packages of `make test-full`."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from support import system_packages
from support.killing import ENVIRONMENT
from support.needs import FULL, NEEDS
from support.skips import read_list
from support.system_packages import SYSTEM, Provided

ROOT = Path(__file__).parents[2]
CONFTEST = """
from importlib.util import find_spec
from support.needs import NEEDS, Need
NEEDS["brought"] = Need(lambda config: find_spec("brought") is not None, "install it", full=True)
NEEDS["anecc"] = Need(lambda config: False, "install it")
NEEDS["own"] = Need(lambda config: False, "nobody has it")
"""
HEAD = "import pytest\nfrom support.needs import lacking, library\n"
ALLOWED = """
@pytest.mark.needs('anecc')
def test_a_need_on_the_list(): raise ValueError
@pytest.mark.needs('brought')
def test_a_need_of_the_full_run(): raise ValueError
def test_a_need_found_by_a_fixture(): lacking('sparse files', 'too small')
@pytest.mark.xfail
def test_no_need(): raise ValueError
"""
FORBIDDEN = """
@pytest.mark.needs('own')
def test_a_need_off_the_list(): raise ValueError
def test_no_need(): pytest.skip('because')
def test_an_unlisted_file(): lacking('apple/anec/none.anec', 'not there')
"""


def run(folder: Path, text: str, *options: str) -> tuple[int, str]:
    """The status and output of a run of tests that are alone in a folder."""
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_it.py").write_text(HEAD + text)
    made = subprocess.run([sys.executable, "-m", "pytest", "-p", "support.skips", "-p", "no:cacheprovider", "-q", "-ra",
                           "--rootdir", str(folder), str(folder), *options], capture_output=True, text=True,
                          env=ENVIRONMENT | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}, check=False, timeout=60,
                          cwd=folder)
    return made.returncode, made.stdout + made.stderr


def test_what_may_be_skipped_passes(tmp_path: Path) -> None:
    (tmp_path / "test_file.py").write_text(f"{HEAD}brought = library('brought')\ndef test(): raise ValueError")
    status, output = run(tmp_path, ALLOWED)
    assert "4 skipped, 1 xfailed" in output
    for text in ("needs anecc: install it", "[2] ", "needs brought: install it", "needs sparse files: too small"):
        assert text in output
    assert "does not have" not in output
    assert status == 0


def test_what_may_not_be_skipped_fails_the_run(tmp_path: Path) -> None:
    (tmp_path / "test_file.py").write_text("import pytest\npytest.skip('of a file', allow_module_level=True)")
    status, output = run(tmp_path, FORBIDDEN)
    assert "4 skipped" in output
    told = output.partition("skipped for what may_be_skipped.txt does not have")[2]
    for line in ("test_file.py: Skipped: of a file", "test_it.py::test_a_need_off_the_list: own",
                 "test_it.py::test_no_need: Skipped: because",
                 "test_it.py::test_an_unlisted_file: apple/anec/none.anec"):
        assert line in told
    assert status == 1


def test_needs_are_known_and_stated_in_advance(tmp_path: Path) -> None:
    status, output = run(tmp_path, "def test(): library('brought')")
    assert "mark the test with needs('brought')" in output
    assert status == 1
    status, output = run(tmp_path, "@pytest.mark.needs('typo')\ndef test(): pass")
    assert "support.needs does not know typo" in output
    assert status == 4


def test_a_full_run_takes_what_the_other_skips_and_skips_none_of_it(tmp_path: Path) -> None:
    """The packages of a file count for all its tests, in the run in which they are there too."""
    (tmp_path / "test_other.py").write_text("def test_other(): raise ValueError\n")
    (tmp_path / "test_mark.py").write_text("import pytest\n@pytest.mark.needs('brought')\ndef test_two(): pass\n")
    text = "brought = library('brought')\ndef test_one(): pass\n"
    status, output = run(tmp_path, text, "--full")
    assert "test_it.py: brought" in output
    assert "test_mark.py::test_two: brought" in output
    (tmp_path / "test_mark.py").write_text("def test_other(): needs\n")
    (tmp_path / "brought.py").write_text("")
    status, output = run(tmp_path, text, "--full", "-p", "brought")
    assert "1 passed, 1 deselected" in output, "a file without the word is not read at all"
    assert status == 0


def test_a_full_run_would_miss_no_file(tmp_path: Path) -> None:
    """It reads those that have the word; another one with a test for it is refused by every run that finds it."""
    (tmp_path / "test_silent.py").write_text(
        "import pytest\n@getattr(pytest.mark, 'nee' + 'ds')('brought')\ndef test(): pass\n")
    status, output = run(tmp_path, "def test_one(): pass\n")
    assert "say `needs` in test_silent.py" in output
    assert status == 4


def test_the_list_has_what_nothing_installs_and_no_more() -> None:
    listed = set(read_list())
    assert listed >= {name for name, need in NEEDS.items() if not need.full} | set(SYSTEM)
    assert not listed & {name for name, need in NEEDS.items() if need.full and name not in SYSTEM}


def test_every_line_of_the_list_is_of_a_need_some_test_has() -> None:
    """By name in a table or a call; a file of the corpus by its stem, among the cases of a test."""
    words = {node.value for path in (ROOT / "tests").rglob("*.py") if path != Path(__file__)
             for node in ast.walk(ast.parse(path.read_text()))
             if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    assert [name for name in read_list() if (Path(name).stem if name.startswith("apple/") else name) not in words] == []


def test_files_on_the_list_are_not_in_the_corpus(corpus: Path) -> None:
    """A line that is not needed any more goes away."""
    files = [name for name in read_list() if name.startswith("apple/")]
    assert [name for name in files if (corpus / name).exists()] == []


def test_the_extra_full_has_the_packages_tests_need() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert {re.split(r"[=<>~;\[ ]", line)[0] for line in extras["full"]} == set(FULL)
    assert any(line.startswith("torch==") for line in extras["full"])


@pytest.mark.parametrize("status", [0, 3])
def test_system_packages_are_installed_where_one_may(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                     capfd: pytest.CaptureFixture[str], status: int) -> None:
    program, said = tmp_path / "apt-get", tmp_path / "said"
    program.write_text(f'#!/bin/sh\necho "$@" >> {said}\necho no such mirror\n'
                       f'case "$*" in *install*) exit {status};; esac')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(system_packages, "SYSTEM", {
        "this": Provided(lambda: False, ("two", "one")), "that": Provided(lambda: True, ("three",))})
    monkeypatch.setattr(system_packages, "privilege", list)
    assert system_packages.main() == status
    assert [line.split()[3:] for line in said.read_text().splitlines()] == [
        ["update"], ["install", "--yes", "--no-install-recommends", "one", "two"]]
    assert ("no such mirror" in capfd.readouterr().err) == bool(status)


def test_system_packages_one_may_not_install_are_named(monkeypatch: pytest.MonkeyPatch,
                                                       capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(system_packages, "SYSTEM", {"this": Provided(lambda: False, ("one", "two"))})
    monkeypatch.setattr(system_packages, "privilege", lambda: None)
    assert system_packages.main() == 0
    assert capsys.readouterr().err == "tests that need this are left out: apt-get install one two\n"
