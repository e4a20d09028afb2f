"""For people who have their model in tinygrad: a function of its tensors on the engine.

    engine = openane.tinygrad.to_engine(function, *example)
    result = engine(*tensors)

tinygrad is imported when it is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from openane.requested import requested

if TYPE_CHECKING:
    from openane.loaded import EngineOptions
    from openane.tinygrad.function import TensorFunction, to_engine

_HOMES = {"TensorFunction": "openane.tinygrad.function", "to_engine": "openane.tinygrad.function",
          "EngineOptions": "openane.loaded"}

__getattr__ = requested(__name__, _HOMES, "tinygrad")
__all__ = ["EngineOptions", "TensorFunction", "to_engine"]
