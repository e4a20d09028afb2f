"""For people who have their model in JAX: a function on the engine.

    engine = openane.jax.to_engine(function, *example)
    result = engine(*arguments)

JAX is imported when it is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from openane.requested import requested

if TYPE_CHECKING:
    from openane.jax.function import EngineFunction, to_engine
    from openane.loaded import EngineOptions

_HOMES = {"EngineFunction": "openane.jax.function", "to_engine": "openane.jax.function",
          "EngineOptions": "openane.loaded"}

__getattr__ = requested(__name__, _HOMES, "jax")
__all__ = ["EngineFunction", "EngineOptions", "to_engine"]
