"""For people who have their model in PyTorch: a module, or what `torch.compile` finds in one, on the engine.

    torch.compile(model, backend="openane")      # what the engine takes runs there, the rest in PyTorch
    engine = openane.torch.to_engine(model, example)

PyTorch is imported when one of them is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from openane.requested import requested

if TYPE_CHECKING:
    from openane.loaded import EngineOptions
    from openane.torch.backend import EngineFallback, openane
    from openane.torch.module import EngineModule, to_engine

_HOMES = {"EngineFallback": "openane.torch.backend", "openane": "openane.torch.backend",
          "EngineModule": "openane.torch.module", "to_engine": "openane.torch.module",
          "EngineOptions": "openane.loaded"}

__getattr__ = requested(__name__, _HOMES, "torch")
__all__ = ["EngineFallback", "EngineModule", "EngineOptions", "openane", "to_engine"]
