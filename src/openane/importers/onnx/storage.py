"""Weights that stay in their file until they are used.

Nearly all bytes of an ONNX file are data of tensors, and a protobuf library holds them until the whole model is given
up. It is handed a copy in which large tensors state where their data lies, in the form ONNX has for data kept in
another file (`external_data`: location, offset, length), the model's own bytes being the location `OWN`. Arrays are
then read one at a time. Tensors in another encoding than little-endian elements in a row stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod
from typing import Any, BinaryIO

import numpy as np

from openane.errors import FormatError, UnsupportedError
from openane.formats.mapping import map_part
from openane.formats.protobuf import (
    MAXIMUM_DEPTH,
    Message,
    Schema,
    bytes_field,
    long_fields,
    read_message,
    scan_fields,
    write_message,
)
from openane.importers.files import memory
from openane.importers.onnx.constants import MATRIX
from openane.importers.onnx.package import package

MAPPED = 1 << 22
"""Bytes from which matrices are mapped into memory while they are rounded: none has to be found for them, which takes a
system longer than reading them."""
OWN = ""
"""Location of data that lies in the model's own bytes; no file beside it can be called so."""
LEAST = 4096
"""Bytes from which data is left in the file: what decides shapes is shorter."""

_SCHEMA = Schema("""
TensorProto: data_type 2 int; external_data 13 Entry*; data_location 14 int
Entry: key 1 string; value 2 string
""")
_INSIDE: Mapping[str, Mapping[int, str]] = {
    "ModelProto": {7: "GraphProto"}, "GraphProto": {1: "NodeProto", 5: "TensorProto"},
    "NodeProto": {5: "AttributeProto"}, "AttributeProto": {5: "TensorProto", 6: "GraphProto"},
}
"""Messages on the way to tensors, by the number of the field they are in (onnx.proto)."""
_DATA = frozenset([3, 4, 5, 6, 7, 9, 10, 11, 13, 14])
"""Fields of a tensor that hold its data or say where it is."""
_RAW, _FLOATS, _DOUBLES = 9, 4, 10
_PLAIN = {_FLOATS: 1, _DOUBLES: 11}
"""Packed fields whose bytes are those of raw data when the tensor has this element type."""
_PLAIN_TYPES = {number: np.dtype(name) for number, name in (
    (1, "<f4"), (2, "u1"), (3, "i1"), (4, "<u2"), (5, "<i2"), (6, "<i4"), (7, "<i8"), (9, "?"), (10, "<f2"),
    (11, "<f8"), (12, "<u4"), (13, "<u8"))}
"""Element types that numpy has, by their number in TensorProto.DataType: their data is seen where it lies, in a tenth
of the time that the package takes."""
_FLOAT = 1
_LISTED = {_FLOAT: "float_data", 6: "int32_data", 7: "int64_data", 11: "double_data"}
"""The fields that hold elements of those types where there is no raw data."""
_LENGTH = 2
_EXTERNAL = 1
_PLACE = _SCHEMA.by_name["TensorProto"]["external_data"].number
_OUTSIDE = write_message(Message(_SCHEMA, "TensorProto", data_location=_EXTERNAL))


def _entry(key: bytes, value: bytes) -> bytes:
    return bytes_field(_PLACE, bytes_field(1, key) + bytes_field(2, value))


_LOCATION = _entry(b"location", OWN.encode())


def slimmed(view: memoryview) -> bytes:
    """A serialised ModelProto without the data of large tensors. FormatError where the bytes break the wire format."""
    return _copied(view, "ModelProto", 0, len(view), 0)


def _copied(view: memoryview, kind: str, start: int, end: int, depth: int) -> bytes:
    """One message, slimmed."""
    if end - start < LEAST or depth > MAXIMUM_DEPTH:
        return bytes(view[start:end])
    if kind == "TensorProto":
        return _tensor(view, start, end)
    inside, pieces, done = _INSIDE[kind], list[bytes | memoryview](), start
    for at, number, begin, stop in long_fields(view, start, end, LEAST):
        if number in inside:
            part = _copied(view, inside[number], begin, stop, depth + 1)
            pieces += view[done:at], bytes_field(number, part)
            done = stop
    return b"".join((*pieces, view[done:end]))


def _tensor(view: memoryview, start: int, end: int) -> bytes:
    """A tensor whose data lies in one piece, without it; any other as it is."""
    data, kept, at = list[tuple[int, int, int, int]](), list[memoryview](), start
    for field in scan_fields(view, start, end):
        if field[0] in _DATA:
            data.append(field)
        else:
            kept.append(view[at:field[3]])
        at = field[3]
    if len(data) == 1:
        [(number, wire, begin, stop)] = data
        rest = b"".join(kept)
        if wire == _LENGTH and stop - begin >= LEAST and (
                number == _RAW or _PLAIN.get(number) == read_message(_SCHEMA, "TensorProto", rest).data_type):
            return rest + _place(begin, stop - begin)
    return bytes(view[start:end])


def _place(offset: int, length: int) -> bytes:
    """The fields of a tensor that say where its data lies."""
    return _LOCATION + _entry(b"offset", b"%d" % offset) + _entry(b"length", b"%d" % length) + _OUTSIDE


def is_stored(tensor: Any) -> bool:
    """Whether a TensorProto says where its data is instead of holding it."""
    return bool(tensor.data_location == _EXTERNAL)


def require_memory(tensors: Iterable[Any]) -> None:
    """UnsupportedError when the weights that wait to be read are more than this machine holds."""
    shapes = [tensor.dims[:] for tensor in tensors if tensor.data_location == _EXTERNAL]
    total = sum(2 * prod(shape) for shape in shapes if min(shape, default=0) >= 0)
    if total > memory():
        raise UnsupportedError("ONNX model", "weights are held in memory in fp16", limit=f"{memory()} bytes",
                               found=f"{total} bytes", remedy="use a machine with more memory, or smaller weights")


def _written(tensor: Any, shape: tuple[int, ...]) -> np.ndarray:
    """The array of a TensorProto of that shape that holds its data."""
    plain = _PLAIN_TYPES.get(tensor.data_type)
    if plain is None or tensor.HasField("segment"):
        return np.asarray(package().numpy_helper.to_array(tensor))
    if tensor.HasField("raw_data"):
        return np.frombuffer(tensor.raw_data, plain).reshape(shape)
    field = _LISTED.get(tensor.data_type)
    if field is None:
        return np.asarray(package().numpy_helper.to_array(tensor))
    return np.array(getattr(tensor, field)[:], plain).reshape(shape)


class Storage:
    """Where tensors' data is read from: the model's own bytes, and files in the folder it is in."""

    def __init__(self, own: BinaryIO | None = None, size: int = 0, folder: str | None = None) -> None:
        """`own` is `size` bytes long; without a `folder`, files beside the model are out of reach."""
        self._own, self._size, self._folder = own, size, folder

    def array(self, tensor: Any, shape: tuple[int, ...], label: str) -> np.ndarray:
        """The array of a TensorProto that states this shape, which the caller holds against that of the array.
        FormatError when its data cannot be reached; whatever the onnx package raises for malformed tensors."""
        if not is_stored(tensor):
            return _written(tensor, shape)
        place = {entry.key: entry.value for entry in tensor.external_data[:]}
        location = place.get("location", OWN)
        if self._own is not None and location == OWN:
            return self._from_own(tensor, shape, place, label)
        if self._folder is None:
            raise FormatError(f"{label}: weights are kept in another file",
                              expected="a path to the model, not its bytes", found=location)
        onnx = package()
        held = onnx.TensorProto()
        held.CopyFrom(tensor)
        try:
            onnx.external_data_helper.load_external_data_for_tensor(held, self._folder)
        except Exception as error:  # missing files, paths outside the folder, ranges outside the file
            raise FormatError(f"{label}: weights kept beside the model cannot be read: {error}") from None
        return np.asarray(onnx.numpy_helper.to_array(held))

    def _from_own(self, tensor: Any, shape: tuple[int, ...], place: Mapping[str, str], label: str) -> np.ndarray:
        large = tensor.data_type == _FLOAT and len(shape) == MATRIX
        data = self._read(place, label, large)
        plain = _PLAIN_TYPES.get(tensor.data_type)
        if plain is not None:
            return np.frombuffer(data, plain).reshape(shape)
        onnx = package()
        held = onnx.TensorProto(data_type=tensor.data_type, dims=tensor.dims, raw_data=data.tobytes())
        return np.asarray(onnx.numpy_helper.to_array(held))

    def _read(self, place: Mapping[str, str], label: str, mapped: bool) -> np.ndarray:
        """The bytes at a place, in an array: numpy takes memory for large ones in larger pages than bytes are in, which
        a system hands out in a third of the time. Many bytes may be seen where they lie in the file (`mapped`)."""
        assert self._own is not None
        offset, length = (int(place.get(key, "-1")) for key in ("offset", "length"))
        if min(offset, length) < 0 or offset + length > self._size:
            raise FormatError(f"{label}: its data lies outside the model's bytes", offset=max(offset, 0),
                              expected=f"at most {self._size} bytes", found=offset + length)
        seen = map_part(self._own, offset, length) if mapped and length >= MAPPED else None
        if seen is not None:
            return np.frombuffer(seen, np.uint8)
        self._own.seek(offset)
        data = np.empty(length, np.uint8)
        found = self._own.readinto(data)  # type: ignore[attr-defined]
        if found != length:
            raise FormatError(f"{label}: the file became shorter while it was read", offset=offset,
                              expected=f"{length} bytes", found=found)
        data.flags.writeable = False
        return data
