"""Text files as characters: each of the most frequent ones is a token, all others share one."""

from __future__ import annotations

import sysconfig
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from openane.configuration import within
from openane.errors import FormatError
from openane.training.data.examples import Split, windows


@dataclass(frozen=True)
class TextFiles:
    """The files that match `files`, sorted by path and put together, up to `limit` characters; `{stdlib}` stands for
    the folder of Python's own library. Windows have `length` characters; the last `holdout` of the text is kept to
    judge by. `classes` tokens: the most frequent characters, and number 0 for all others."""

    files: tuple[str, ...]
    length: int = within(64, low=2, high=4096)
    classes: int = within(96, low=2, high=4096)
    limit: int = within(1_000_000, low=100, high=1_000_000_000)
    least: int = within(0, low=0)
    """Characters the text must have."""
    holdout: float = within(0.1, low=0.0001, high=0.9999)

    def load(self, base: Path) -> Split:
        """See `Source.load`. FormatError when the text is shorter than `least`."""
        text = "".join(self._parts(base))[:self.limit]
        if len(text) < self.least:
            raise FormatError(f"data.files {list(self.files)} have {len(text)} characters; data.least asks for "
                              f"{self.least}")
        return windows(self._tokens(text), self.length, self.holdout, self.classes, "data.files")

    def _parts(self, base: Path) -> list[str]:
        parts, size = list[str](), 0
        for pattern in self.files:
            place = Path(pattern.replace("{stdlib}", sysconfig.get_path("stdlib")))
            root, relative = (Path(place.anchor), place.relative_to(place.anchor)) if place.is_absolute() \
                else (base, place)
            try:
                found = sorted(path for path in root.glob(str(relative)) if path.is_file())
            except (ValueError, IndexError, NotImplementedError) as error:
                raise FormatError(f"data.files: {pattern!r} is no pattern of files: {error}") from None
            if not found:
                raise FormatError(f"data.files: no file matches {pattern!r}")
            for path in found:
                if size >= self.limit:
                    return parts
                try:
                    parts.append(path.read_text("utf-8", errors="replace"))
                except OSError as error:
                    raise FormatError(f"data.files: {path} cannot be read: {error.strerror or error}") from None
                size += len(parts[-1])
        return parts

    def _tokens(self, text: str) -> np.ndarray:
        counts = Counter(text)
        kept = sorted(sorted(counts, key=lambda character: (-counts[character], character))[:self.classes - 1])
        codes = np.frombuffer(text.encode("utf-32-le", errors="replace"), "<u4")
        table = np.array([ord(character) for character in kept], np.uint32)
        place = np.searchsorted(table, codes)
        known = table[np.minimum(place, len(table) - 1)] == codes
        return np.where(known, place + 1, 0).astype(np.uint16)
