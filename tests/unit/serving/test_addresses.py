"""Addresses a server cannot have: said before the model is loaded where it is known, and as an error where not."""

from __future__ import annotations

import pytest
from support.http_service import HOST
from support.text_model import VOCABULARY, ByteModel

from openane.errors import AneError
from openane.serving.app import Service
from openane.serving.engine import ServedModel
from openane.serving.guard import Guard
from openane.serving.server import HttpServer, bound

TAKEN = r"cannot listen on 127\.0\.0\.1, port \d+: Address already in use\nhint: --port 0 takes a free port"


def test_an_address_where_another_listens_is_refused() -> None:
    with bound(HOST, 0) as other:
        other.listen()
        with pytest.raises(AneError, match=TAKEN):
            bound(HOST, other.getsockname()[1])


def test_of_two_that_loaded_models_at_once_the_second_is_told() -> None:
    with bound(HOST, 0) as first, bound(HOST, first.getsockname()[1]) as second:
        first.listen()
        server = HttpServer(Service("m", "none", ServedModel(ByteModel(), VOCABULARY, 1, None), Guard(), 5), second, 1)
        with pytest.raises(AneError, match=TAKEN):
            server.serve_until_stopped()
        assert second.fileno() == -1
