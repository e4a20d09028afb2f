"""For people who have their model in JAX: a function on the engine.

    engine = openane.jax.to_engine(function, *example)
    result = engine(*arguments)

JAX is imported when it is asked for.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

from openane.errors import UnsupportedError

if TYPE_CHECKING:
    from openane.jax.function import EngineFunction, to_engine
    from openane.loaded import EngineOptions

_HOMES = {"EngineFunction": "openane.jax.function", "to_engine": "openane.jax.function",
          "EngineOptions": "openane.loaded"}


def __getattr__(name: str) -> object:
    """Imports JAX, and what is asked for, on first use (PEP 562). UnsupportedError without JAX."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if find_spec("jax") is None:
        raise UnsupportedError("openane.jax", "needs the jax package", remedy='pip install "openane[jax]"')
    return getattr(import_module(_HOMES[name]), name)


__all__ = ["EngineFunction", "EngineOptions", "to_engine"]
