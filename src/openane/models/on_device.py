"""What every model on a device is: its compiled functions, its tokenizer, and a device that may be its own."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Self

from openane.devices import Device, open_device
from openane.errors import GenerationError
from openane.models.runner import ModelRunner, Usage
from openane.models.tokenizer import Tokenizer


class OnDevice:
    """Functions on a device. Close it, or use it in a `with` statement."""

    def __init__(self, device: str | Device | None, tokenizer: Tokenizer | None,
                 load: Callable[[Device], ModelRunner]) -> None:
        """`load` compiles and loads; a device given by its name (None: $ANE_DEVICE, or the simulator) is opened for
        it, and closed with the model, also when `load` fails."""
        self.tokenizer = tokenizer
        self._closes = device is None or isinstance(device, str)
        self._device = open_device(device) if device is None or isinstance(device, str) else device
        try:
            self._runner = load(self._device)
        except BaseException:
            if self._closes:
                self._device.close()
            raise

    @property
    def device(self) -> Device:
        """Where the functions run."""
        return self._device

    @property
    def runner(self) -> ModelRunner:
        """The compiled functions on the device."""
        return self._runner

    @property
    def usage(self) -> Usage:
        """Counters since the model was loaded."""
        return self._runner.usage

    def close(self) -> None:
        """Gives the model back, and the device where it was opened here."""
        self._runner.close()
        if self._closes:
            self._device.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def _words(self) -> Tokenizer:
        if self.tokenizer is None:
            raise GenerationError("the model has no tokenizer; give it tokens instead of a text")
        return self.tokenizer
