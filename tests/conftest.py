"""Fixtures shared by all tests."""

from __future__ import annotations

import gc
import os
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from support.needs import lacking

settings.register_profile("openane", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("openane")  # times are for benchmarks: a busy machine fails no test

pytest_plugins = ("support.skips",)


def settle() -> None:
    """Python need not look again for circles among all there is: modules, tests, tables that were made. A third of the
    tests' time went by looking at them whenever much was made, and at every `gc.collect` of a test."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Nothing that is made while tests are collected goes away, so nothing is looked for."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.set_threshold(10_000, 20, 10)  # not 700 objects: most are given back at once
        settle()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, Any, Any]:
    """After the last test of a file what the file left is given back or, as caches are, kept for good."""
    try:
        return (yield)
    finally:
        if nextitem is None or nextitem.path != item.path:
            settle()


@pytest.fixture(scope="session")
def corpus() -> Path:
    """The folder of outside data named by $OPENANE_CORPUS; the test is skipped where there is none."""
    folder = os.environ.get("OPENANE_CORPUS")
    if not folder:
        lacking("OPENANE_CORPUS", "set it to the folder of Apple-made programs to test against")
    path = Path(folder)
    if not path.is_dir():
        pytest.fail(f"OPENANE_CORPUS names {folder}, which is not a folder")
    return path


@pytest.fixture(autouse=True, scope="session")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Compiled models are kept in a folder of the session's own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ANE_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield
