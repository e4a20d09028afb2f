"""The optional packages the server needs."""

from __future__ import annotations

import pytest

from openane import serving
from openane.errors import UnsupportedError


def test_a_missing_package_is_named_with_the_pip_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "NEEDED", ("json", "no_such_package"))
    with pytest.raises(UnsupportedError, match=r"(?s)needs no_such_package.*pip install \"openane\[serve\]\""):
        serving.require()
