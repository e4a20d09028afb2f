"""A graph compiled and loaded on a device, for those who have their model in another library: arrays in, arrays out."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any
from weakref import finalize

import numpy as np

from openane.chips import DEFAULT_TARGET
from openane.chips.machines import target as generation_of
from openane.compiler import Model, compile
from openane.compiler.partition.hosting import LOOKUPS, AllowHost
from openane.devices import Device, open_device
from openane.devices.protocol import LoadedModel
from openane.errors import UnsupportedError
from openane.graph import Graph

MOST_SHAPES = 8
"""Programs of one function or module that are kept, for as many shapes; the one that was used longest ago goes
first."""


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """How programs are compiled and where they run: arguments of `openane.compile`, and a device's name (None:
    $ANE_DEVICE, or the simulator)."""

    target: str = DEFAULT_TARGET
    allow_host: AllowHost = LOOKUPS
    precision: str = "safe"
    device: str | None = None
    cache: bool = False

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> EngineOptions:
        """The options by their names. UnsupportedError for a name that none has, with what is near, and for a target
        that nothing is compiled for."""
        known = [field.name for field in fields(cls)]
        unknown = next((name for name in options if name not in known), None)
        if unknown is not None:
            near = difflib.get_close_matches(unknown, known, n=1)
            raise UnsupportedError("options", "there is none of this name", found=unknown, limit=", ".join(known),
                                   remedy=f"did you mean {near[0]}?" if near else "leave it out")
        found = cls(**options)
        generation_of(found.target)
        return found


class ResidentGraph:
    """A graph on a device; `close`, or the end of its life, frees the device's memory."""

    def __init__(self, graph: Graph, options: EngineOptions) -> None:
        """Errors are those of `openane.compile` and of the device."""
        self.model: Model = compile(graph, options.target, options.allow_host, precision=options.precision,
                                    cache=options.cache)
        self.inputs = tuple(value.name for value in graph.inputs)
        self.outputs = tuple(value.name for value in graph.outputs)
        device = open_device(options.device)
        try:
            self._executable = device.load(self.model)
        except BaseException:
            device.close()
            raise
        self._closing = finalize(self, _close, self._executable, device)

    def run(self, feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """The outputs in their order, by arrays for the inputs."""
        found = self._executable.run(dict(feeds))
        return [np.array(found[name]) for name in self.outputs]

    def close(self) -> None:
        """Frees what the device holds. Closing twice does nothing."""
        self._closing()


def _close(executable: LoadedModel, device: Device) -> None:
    executable.close()
    device.close()
