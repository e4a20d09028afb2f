"""A net.plist while it is written: units, constants and the weight file, collected node by node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from openane.errors import UnsupportedError
from openane.graph import Node, Value
from openane.importers.names import untaken
from openane.importers.netplist.unit import DIMENSIONS

ALIGNMENT = 64
"""Bytes at whose multiples arrays begin in a weight file (a choice of ours: the format states every offset)."""
RESERVED = ("Inputs", "Outputs", "Units", "Weights", "Constants")
"""Keys of a network that no port, constant or unit can have as its name."""


def bits(number: float, node: Node, operand: str) -> int:
    """The 16 bits of a number's fp16 form, in decimal. UnsupportedError when it is not finite there."""
    with np.errstate(over="ignore"):
        half = np.float16(number)
    if not np.isfinite(half):
        raise refusal(node, f"{operand} must be finite in fp16", number, "a number up to 65504")
    return int(half.view(np.uint16))


def refusal(node: Node, rule: str, found: object, remedy: str) -> UnsupportedError:
    """The error for a node that net.plist units cannot express."""
    return UnsupportedError(f"net.plist, {node.label}", rule, found=found, remedy=remedy)


class Outgoing:
    """`names` maps values to the ports, constants or units that hold them; `weights` is the contents of the weight
    file, where arrays lie as fp16 from multiples of 64 bytes on; `uses` counts the readers of values."""

    def __init__(self, rank: int, uses: Mapping[int, int]) -> None:
        self.rank, self.uses = rank, uses
        self.units: dict[str, dict[str, Any]] = {}
        self.constants: dict[str, dict[str, Any]] = {}
        self.names: dict[int, str] = {}
        self.taken: set[str] = set(RESERVED)
        self.weights = bytearray()
        self._stored: dict[tuple[tuple[int, ...], bytes], int] = {}

    def axes(self) -> Sequence[str]:
        """The format's dimension names in the order of axes."""
        return DIMENSIONS if self.rank == 5 else [name for name in DIMENSIONS if name != "Depth"]

    def unique(self, name: str) -> str:
        """`name`, or with a number behind it when it is taken."""
        return untaken(name, self.taken)

    def store(self, array: np.ndarray) -> int:
        """The offset of `array` in the weight file; equal arrays are stored once."""
        data = np.ascontiguousarray(array, "<f2").tobytes()
        key = (array.shape, data)
        if key not in self._stored:
            self.weights += bytes(-len(self.weights) % ALIGNMENT)
            self._stored[key] = len(self.weights)
            self.weights += data
        return self._stored[key]

    def extents(self, prefix: str, shape: Sequence[int], batch: str = "") -> dict[str, int]:
        """Extents under the format's keys; depth only where there is one."""
        plural = {"Channel": "Channels"} if prefix != "Reshaped" else {}
        keys = {name: prefix + plural.get(name, name) for name in self.axes()}
        keys["Batch"] = batch or f"{prefix}Batch{'Size' if prefix == 'Constant' else ''}"
        return {keys[name]: extent for name, extent in zip(self.axes(), shape, strict=True)}

    def source(self, node: Node, value: Value) -> str:
        """The name under which a unit reads `value`: a constant becomes an entry of the network."""
        if value.data is None:
            return self.names[id(value)]
        if id(value) not in self.names:
            array = np.asarray(value.data)
            if value.dtype != "fp16" or array.ndim > self.rank:
                raise refusal(node, "constants must be fp16, of no higher rank than the rest", value.type,
                              f"an fp16 constant of rank {self.rank} at most")
            shape = (1,) * (self.rank - array.ndim) + array.shape
            name = self.names[id(value)] = self.unique(value.name or "constant")
            self.constants[name] = {
                "ConstantName": name, "ConstantType": "Float16", "ConstantIndex": 0, "ConstantInterleave": 1,
                "ConstantByteOffset": self.store(array), **self.extents("Constant", shape)}
        return self.names[id(value)]

    def unit(self, kind: str, name: str, bottom: str | Sequence[str], params: Mapping[str, Any] | None = None,
             channels: int | None = None, **extra: Any) -> str:
        """Appends a unit and returns its name."""
        entry: dict[str, Any] = {"Name": name, "Type": kind, "OutputType": "Float16", **extra,
                                 "Bottom": bottom if isinstance(bottom, str) else list(bottom)}
        if params is not None:
            entry["Params"] = dict(params)
        if channels is not None:
            entry["OutputChannels"] = channels
        self.units[name] = entry
        return name

    def rename(self, unit: str, name: str) -> dict[str, Any]:
        """Calls a unit otherwise, in its place and wherever it is read; returns its entry."""
        self.units = {name if key == unit else key: entry for key, entry in self.units.items()}
        self.units[name]["Name"] = name
        for value, holder in self.names.items():
            if holder == unit:
                self.names[value] = name
        return self.units[name]
