"""Fixtures shared by all tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from support.needs import lacking

settings.register_profile("openane", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("openane")  # times are for benchmarks: a busy machine fails no test

pytest_plugins = ("support.skips",)


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
