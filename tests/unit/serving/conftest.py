"""A server of a small model for the tests of a module that need no other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from support.http_service import Served
    from support.text_model import ByteModel


@pytest.fixture(scope="module")
def model() -> ByteModel:
    from support.text_model import ByteModel  # needs packages a test module asks for first

    return ByteModel()


@pytest.fixture(scope="module")
def server(model: ByteModel) -> Iterator[Served]:
    from support.http_service import served

    with served(model) as running:
        yield running
