"""What every model on a device has: what was loaded there, a tokenizer, and a device that may be its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from openane.devices import Device, open_device
from openane.errors import GenerationError
from openane.models.closing import Closing
from openane.models.tokenizer import Tokenizer


class _Held(Protocol):
    def close(self) -> None: ...


Held = TypeVar("Held", bound=_Held)


class OnDevice(Closing, Generic[Held]):
    """A model on a device. Close it, or use it in a `with` statement."""

    def __init__(self, device: str | Device | None, tokenizer: Tokenizer | None,
                 load: Callable[[Device], Held]) -> None:
        """`load` puts the model onto the device; a device given by its name (None: $ANE_DEVICE, or the simulator) is
        opened for it, and closed with the model, also when `load` fails."""
        self.tokenizer = tokenizer
        self._closes = device is None or isinstance(device, str)
        self._device = open_device(device) if device is None or isinstance(device, str) else device
        try:
            self._loaded = load(self._device)
        except BaseException:
            self._close_device()
            raise

    @property
    def device(self) -> Device:
        """Where the functions run."""
        return self._device

    def close(self) -> None:
        """Gives the model back, and the device where it was opened here."""
        self._loaded.close()
        self._close_device()

    def _close_device(self) -> None:
        if self._closes:
            self._device.close()

    def _words(self) -> Tokenizer:
        if self.tokenizer is None:
            raise GenerationError("the model has no tokenizer; give it tokens instead of a text")
        return self.tokenizer
