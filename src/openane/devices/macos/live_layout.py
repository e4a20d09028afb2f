"""How the ports of a loaded model lie in their surfaces, as the model itself says.

`modelAttributes` of a loaded model is a dictionary; `NetworkStatusList` has an entry per procedure, with
`LiveInputList` and `LiveOutputList`: per port its symbol, element type, extents and byte strides (source: one public
project that sizes and packs every surface by them). Rows are padded to 64 bytes by all that is known, so that a tensor
whose rows are a multiple of 64 bytes lies the same in every account.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from openane.devices.macos.foundation import Plain
from openane.devices.macos.graph_program import GraphPort
from openane.devices.macos.surfaces import LARGEST, ROW_ALIGNMENT
from openane.engine import Access, DType
from openane.errors import DeviceChanged, DeviceRejected
from openane.program import Layout
from openane.record_classes import dataclass

ELEMENTS = {"fp16": DType.FLOAT16, "int16": DType.FLOAT16, "uint16": DType.FLOAT16, "int8": DType.INT8,
            "uint8": DType.UINT8}
"""Elements of ports as the packer moves them; 16-bit integers are moved as the two bytes they are."""

_EXTENTS = ("Batches", "Channels", "Depth", "Height", "Width")
_STRIDES = ("BatchStride", "PlaneStride", "DepthStride", "RowStride")


@dataclass(frozen=True, slots=True)
class LivePort:
    """A port's surface: how the tensor lies in it, and its bytes."""

    port: GraphPort
    layout: Layout
    size: int


def in_order(ports: Sequence[GraphPort]) -> list[GraphPort]:
    """The ports as the runtime takes them: in alphabetical order of their names in the text (source: one public project
    that tried every order of three inputs)."""
    return sorted(ports, key=lambda port: port.mil)


def live_ports(attributes: Plain, key: str, ports: Sequence[GraphPort]) -> list[LivePort]:
    """The surfaces of `ports`, in the runtime's order; `key` is "LiveInputList" or "LiveOutputList".

    DeviceChanged when the attributes contradict the text; DeviceRejected when there are none and the layout cannot be
    told without them.
    """
    ordered = in_order(ports)
    entries = _entries(attributes, key)
    if entries is None:
        return [_assumed(port) for port in ordered]
    if len(entries) != len(ordered):
        raise DeviceChanged(key, expected=f"{len(ordered)} ports", found=len(entries))
    symbols = [entry.get("Symbol") for entry in entries]
    names = [port.mil for port in ordered]
    if set(symbols) == set(names) and symbols != names:
        raise DeviceChanged(f"the order of {key}", expected=", ".join(names), found=", ".join(map(str, symbols)))
    return [_stated(port, entry, key) for port, entry in zip(ordered, entries, strict=True)]


def _entries(attributes: Plain, key: str) -> list[dict[str, Any]] | None:
    """The entries of the first procedure; None when the model says nothing about its ports."""
    procedures = attributes.get("NetworkStatusList") if isinstance(attributes, dict) else None
    if not isinstance(procedures, list) or not procedures or not isinstance(procedures[0], dict):
        return None
    found = procedures[0].get(key)
    if not isinstance(found, list) or not all(isinstance(entry, dict) for entry in found):
        return None
    return [entry for entry in found if isinstance(entry, dict)]


def _stated(port: GraphPort, entry: dict[str, Any], key: str) -> LivePort:
    """The surface an entry describes. DeviceChanged unless it holds the port's elements inside its own bytes."""
    place = f"{key} entry of {port.mil}"
    shape, strides = (tuple(_number(entry, word, place) for word in words) for words in (_EXTENTS, _STRIDES))
    elements = 1
    for extent in port.shape:
        elements *= extent
    count = 1
    for extent in shape:
        count *= extent
    if count != elements:
        raise DeviceChanged(place, expected=f"{elements} elements", found=f"{list(shape)}")
    n, c, d, h, w = shape
    batch, plane, depth, row = strides
    dtype = ELEMENTS[port.element]
    interleave = _number(entry, "Interleave", place) if "Interleave" in entry else 1
    layout = Layout((n, c, d, h, w), (batch, plane, depth, row, dtype.size * interleave), dtype, interleave)
    size = batch * n
    end = Access(shape=layout.shape, strides=layout.strides, dtype=dtype, interleave=interleave).span[1]
    if not end <= size <= LARGEST:
        raise DeviceChanged(place, expected=f"strides that keep the tensor inside {size} bytes", found=end)
    return LivePort(port, layout, size)


def _number(entry: dict[str, Any], word: str, place: str) -> int:
    value = entry.get(word)
    if not isinstance(value, int) or not 0 < value <= LARGEST:
        raise DeviceChanged(f"{word} of the {place}", expected=f"a number from 1 to {LARGEST}", found=value)
    return value


def _assumed(port: GraphPort) -> LivePort:
    """The surface of a port the model says nothing about, where padded and packed rows are the same."""
    dtype = ELEMENTS[port.element]
    rows = 1
    for extent in port.shape[:-1]:
        rows *= extent
    width = port.shape[-1]
    if width * dtype.size % ROW_ALIGNMENT:
        raise DeviceRejected(f"port {port.name!r}", [
            f"the loaded model does not say how it lies in memory, and its rows of {width * dtype.size} bytes are no "
            f"multiple of {ROW_ALIGNMENT}: packed and padded they lie differently; make its last dimension a multiple "
            f"of {ROW_ALIGNMENT // dtype.size}, or use route=e5rt"])
    layout = Layout((1, 1, 1, rows, width), (0, 0, 0, width * dtype.size, dtype.size), dtype)
    return LivePort(port, layout, rows * width * dtype.size)
