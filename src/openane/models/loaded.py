"""A compiled model of several functions on a device, all of them loaded at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from openane.compiler import Model
from openane.devices import Device
from openane.devices.protocol import LoadedModel
from openane.models.on_device import OnDevice
from openane.models.tokenizer import Tokenizer


class RunningModel(OnDevice[LoadedModel]):
    """One model on one device: `model` is compiled, `host` says what is left to the host. Close it, or use it in a
    `with` statement."""

    def __init__(self, model: Model, device: str | Device | None, tokenizer: Tokenizer | None,
                 host: Sequence[str]) -> None:
        """`host`: what is left to the host beside the model's own operations there."""
        operations = (entry.operation for function in model.functions.values() for entry in function.host_operations)
        self.model, self.host = model, (*host, *dict.fromkeys(operations))
        super().__init__(device, tokenizer, lambda opened: opened.load(model))

    def _run(self, inputs: Mapping[str, np.ndarray], function: str | None = None) -> dict[str, np.ndarray]:
        """A function on prepared inputs (None: the only one)."""
        return self._loaded.run(inputs) if function is None else self._loaded.run(inputs, function)
