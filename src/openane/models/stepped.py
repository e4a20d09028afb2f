"""A model whose steps a runner loads and counts, on a device."""

from __future__ import annotations

from openane.models.on_device import OnDevice
from openane.models.runner import ModelRunner, Usage


class SteppedModel(OnDevice[ModelRunner]):
    """Compiled steps on a device. Close it, or use it in a `with` statement."""

    @property
    def runner(self) -> ModelRunner:
        """The compiled functions on the device."""
        return self._loaded

    @property
    def usage(self) -> Usage:
        """Counters since the model was loaded."""
        return self._loaded.usage
