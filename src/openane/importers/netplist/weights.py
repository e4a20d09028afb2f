"""Weight files of a net.plist: raw arrays, found beside it, every region checked against the file before it is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

import numpy as np

from openane.errors import FormatError
from openane.importers.entry import DictionaryEntry, halves
from openane.importers.files import is_there
from openane.record_classes import dataclass

TYPES: Mapping[str, np.dtype[np.generic]] = {
    "Float16": np.dtype("<f2"), "Float32": np.dtype("<f4"), "UInt8": np.dtype("u1"), "Int8": np.dtype("i1")}
"""Element types of weights, by the format's names."""


@dataclass(frozen=True, slots=True)
class NetplistWeights:
    """`names` are the paths the network states, in order. Each is looked for in `files` (contents by name), then in
    `folder` under the path stated, then under its last component; nothing outside `folder` is read."""

    names: Sequence[str]
    folder: Path | None
    files: Mapping[str, bytes]

    def read(self, entry: DictionaryEntry, prefix: str, count: int, shape: tuple[int, ...]) -> np.ndarray:
        """The fp16 array of `shape` (`count` elements) that keys `<prefix>Index`, `Offset` and `Type` of `entry`
        describe; the index is 0 and the offset 0 where they are left out. FormatError when the file is missing or
        too short."""
        index = entry.integer(f"{prefix}Index", 0)
        if index >= len(self.names):
            raise entry.refuse(f"{prefix}Index", index, f"an index below {len(self.names)}, the length of Weights",
                               "must name one of the network's weight files")
        dtype = entry.choice(f"{prefix}Type", TYPES, "Float16")
        offset = entry.integer(f"{prefix}Offset", 0, high=2**48)
        label = f"{entry.label}, {prefix} data in {self.names[index]!r:.120}"
        return halves(self._region(self.names[index], label, offset, count, dtype), label).reshape(shape)

    def _region(self, name: str, label: str, offset: int, count: int, dtype: np.dtype[np.generic]) -> np.ndarray:
        source = self.files.get(name)
        path = self._find(name) if source is None else None
        try:
            size = len(source) if source is not None else path.stat().st_size  # type: ignore[union-attr]
            if offset + count * dtype.itemsize > size:
                raise FormatError(f"{label}: the file is too short", offset=offset,
                                  expected=f"{count} elements of {dtype}", found=f"a file of {size} bytes")
            if source is not None:
                return np.frombuffer(source, dtype, count, offset)
            return np.fromfile(path, dtype, count, offset=offset)  # type: ignore[arg-type]
        except OSError as error:
            raise FormatError(f"weight file {name!r:.120} cannot be read: {error.strerror or error}") from None

    def _find(self, name: str) -> Path:
        stated = PurePosixPath(name)
        inside = not stated.is_absolute() and ".." not in stated.parts
        candidates = [] if self.folder is None or "\0" in name or not stated.name else [
            self.folder / part for part in ((stated, stated.name) if inside else (stated.name,))]
        found = next((candidate for candidate in candidates if is_there(candidate)), None)
        if found is None:
            place = f"{stated.name!r:.120} beside the net.plist" if self.folder else "its bytes in weights="
            raise FormatError(f"weight file {name!r:.120} is missing", expected=place, found="nothing")
        return found
