"""Token files as llama2.c writes them: token numbers as little-endian uint16, nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from openane.configuration import within
from openane.errors import FormatError
from openane.training.data.examples import Split, windows

BYTES = 2
BLOCK = 1 << 22


@dataclass(frozen=True)
class Tokens:
    """The tokens of `file`, all below `classes`, in windows of `length`; the last `holdout` of them is kept to judge
    by. The file is mapped, not read."""

    file: str
    classes: int = within(low=2, high=65536)
    length: int = within(64, low=2, high=4096)
    holdout: float = within(0.1, low=0.0001, high=0.9999)

    def load(self, base: Path) -> Split:
        """See `Source.load`."""
        path = base / self.file
        try:
            size = path.stat().st_size if not path.is_dir() else 0
            tokens = np.memmap(path, "<u2", mode="r") if size and not size % BYTES else None
        except OSError as error:
            raise FormatError(f"{path} cannot be read: {error.strerror or error}") from None
        if tokens is None:
            raise FormatError(f"{path} is no file of uint16 tokens", expected="an even number of bytes", found=size)
        for start in range(0, len(tokens), BLOCK):
            largest = int(tokens[start:start + BLOCK].max())
            if largest >= self.classes:
                raise FormatError(f"{path} has a token data.classes does not allow", expected=f"below {self.classes}",
                                  found=largest)
        return windows(tokens, self.length, self.holdout, self.classes, str(path))
