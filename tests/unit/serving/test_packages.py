"""The optional packages the server needs."""

from __future__ import annotations

import re

import pytest

from openane import serving
from openane.errors import UnsupportedError
from openane.version import pip_line


def test_a_missing_package_is_named_with_the_pip_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "NEEDED", ("json", "no_such_package"))
    with pytest.raises(UnsupportedError, match=f"(?s)needs no_such_package.*{re.escape(pip_line('serve'))}"):
        serving.require()
