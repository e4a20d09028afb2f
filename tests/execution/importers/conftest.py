"""What tests of importers share: the models that the benchmark of many models builds."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

import pytest
from support.benchmark_modules import benchmark_modules


@pytest.fixture(scope="module")
def libraries() -> Iterator[ModuleType]:
    """What builds the models of the benchmark's lists."""
    with benchmark_modules("zoo_models.libraries") as [found]:
        yield found
