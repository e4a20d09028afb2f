"""Python looks for circles of objects again after work that makes none, whatever it was told before."""

from __future__ import annotations

import gc

import pytest

import openane as ane
from openane.errors import UnsupportedError
from openane.graph import Graph
from openane.record_classes import many_records


@pytest.mark.parametrize("before", [True, False])
def test_what_was_is_restored(before: bool) -> None:
    looked = gc.isenabled()
    try:
        (gc.enable if before else gc.disable)()
        with many_records():
            assert not gc.isenabled()
        assert gc.isenabled() is before
        with pytest.raises(UnsupportedError):
            ane.compile(Graph("none", (), (), ()), precision="unknown")
        assert gc.isenabled() is before
    finally:
        (gc.enable if looked else gc.disable)()
