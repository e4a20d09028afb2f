"""For people who have their model in tinygrad: a function of its tensors on the engine.

    engine = openane.tinygrad.to_engine(function, *example)
    result = engine(*tensors)

tinygrad is imported when it is asked for.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

from openane.errors import UnsupportedError

if TYPE_CHECKING:
    from openane.loaded import EngineOptions
    from openane.tinygrad.function import TensorFunction, to_engine

_HOMES = {"TensorFunction": "openane.tinygrad.function", "to_engine": "openane.tinygrad.function",
          "EngineOptions": "openane.loaded"}


def __getattr__(name: str) -> object:
    """Imports tinygrad, and what is asked for, on first use (PEP 562). UnsupportedError without tinygrad."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if find_spec("tinygrad") is None:
        raise UnsupportedError("openane.tinygrad", "needs the tinygrad package", remedy="pip install tinygrad")
    return getattr(import_module(_HOMES[name]), name)


__all__ = ["EngineOptions", "TensorFunction", "to_engine"]
