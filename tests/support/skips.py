"""What is skipped, held to a list: a plugin of pytest for `support.needs`.

`pytest --full` runs the tests that need what only `make test-full` provides. `tests/may_be_skipped.txt` has all that a
run may skip for, with the reason; where it skips for anything else the run fails. Without `--full` what
`make test-full` provides may be missing as well.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from support.needs import FILE, NEEDS, lacking, needed
from support.system_packages import SYSTEM, privilege

LIST = Path(__file__).parents[1] / "may_be_skipped.txt"
REASON = re.compile(r"Skipped: needs (.+?): ")
SAID = re.compile(r"\bneeds|\blibrary\(")
"""What stands in every file that has a test with a need."""


def read_list(path: Path = LIST) -> dict[str, str]:
    """Need to reason, of every line that is not a comment."""
    lines = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
    pairs = [line.partition(": ")[::2] for line in lines]
    assert all(reason for _, reason in pairs), f"{path.name}: lines read `need: reason`"
    return dict(pairs)


class Judge:
    """Keeps what was skipped in a run, and fails the run for what the list does not have."""

    def __init__(self, full: bool, listed: dict[str, str]) -> None:
        self.full, self.listed = full, listed
        self.skipped: dict[str, list[str]] = {}

    def allowed(self, need: str) -> bool:
        """Whether a run may skip for this; for a package of the system it may where one may not install it."""
        known = NEEDS.get(need)
        if known is not None and known.full and not self.full:
            return True
        return need in self.listed and (need not in SYSTEM or privilege() is None)

    def unlisted(self) -> list[str]:
        """A line for every test and file that was skipped for what the list does not have."""
        return [f"{node}: {need}" for need, nodes in self.skipped.items() if not self.allowed(need) for node in nodes]

    def pytest_runtest_logreport(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        """Remembers what was skipped, by the need it named, or by all it said where it named none."""
        if report.skipped and not hasattr(report, "wasxfail"):
            text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
            found = REASON.match(text)
            self.skipped.setdefault(found[1] if found else text, []).append(report.nodeid)

    pytest_collectreport = pytest_runtest_logreport

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Prints what fails the run."""
        if unlisted := self.unlisted():
            terminalreporter.section(f"skipped for what {LIST.name} does not have", red=True)
            for line in unlisted:
                terminalreporter.line(line)

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Fails a run that would have passed."""
        if exitstatus == pytest.ExitCode.OK and self.unlisted():
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="run the tests that need what only `make test-full` provides")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "needs(*names): what this test needs, by names of support.needs")
    config.pluginmanager.register(Judge(config.getoption("full"), read_list()))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, Any, Any]:
    token = FILE.set(collector if isinstance(collector, pytest.Module) else None)
    try:
        return (yield)
    finally:
        FILE.reset(token)


def says_needs(path: Path) -> bool:
    """Whether a file may have tests with needs."""
    return SAID.search(path.read_text()) is not None


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """A full run imports no file without any: most of them are, and importing them all takes half a minute."""
    other = config.getoption("full") and collection_path.suffix == ".py" and not says_needs(collection_path)
    return True if other else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    unknown = {name for item in items for name in needed(item)} - set(NEEDS)
    if unknown:
        raise pytest.UsageError(f"support.needs does not know {', '.join(sorted(unknown))}")
    chosen = [item for item in items if any(NEEDS[name].full for name in needed(item))]
    silent = sorted({item.path.name for item in chosen if not says_needs(item.path)})
    if silent:
        raise pytest.UsageError(f"say `needs` in {', '.join(silent)}: a full run reads only files that do")
    if config.getoption("full"):
        config.hook.pytest_deselected(items=[item for item in items if item not in set(chosen)])
        items[:] = chosen


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    for name in needed(item):
        if not NEEDS[name].met(item.config):
            lacking(name, NEEDS[name].remedy)
