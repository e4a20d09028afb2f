"""A compiled model of several functions on a device, which may be its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

import numpy as np

from openane.compiler import Model
from openane.devices import Device, open_device
from openane.models.tokenizer import Tokenizer


class RunningModel:
    """One model on one device: `model` is compiled, `host` says what is left to the host. Close it, or use it in a
    `with` statement."""

    def __init__(self, model: Model, device: str | Device | None, tokenizer: Tokenizer | None,
                 host: Sequence[str]) -> None:
        """A device given by its name (None: $ANE_DEVICE, or the simulator) is opened, and closed with the model."""
        self.model, self.tokenizer = model, tokenizer
        operations = (entry.operation for function in model.functions.values() for entry in function.host_operations)
        self.host = (*host, *dict.fromkeys(operations))
        self._closes = device is None or isinstance(device, str)
        self._device = open_device(device) if device is None or isinstance(device, str) else device
        try:
            self._loaded = self._device.load(model)
        except BaseException:
            self._close_device()
            raise

    def _run(self, inputs: Mapping[str, np.ndarray], function: str | None = None) -> dict[str, np.ndarray]:
        """A function on prepared inputs (None: the only one)."""
        return self._loaded.run(inputs) if function is None else self._loaded.run(inputs, function)

    def close(self) -> None:
        """Gives the model back, and the device where it was opened here."""
        self._loaded.close()
        self._close_device()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def _close_device(self) -> None:
        if self._closes:
            self._device.close()
