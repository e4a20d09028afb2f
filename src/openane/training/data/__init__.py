"""Training data: examples by number, split once into those to learn from and those to judge by."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from openane.training.data.arrays import Arrays
from openane.training.data.digits import Digits
from openane.training.data.examples import Examples, Split, batches, order
from openane.training.data.text import TextFiles
from openane.training.data.tokens import Tokens


class DataSource(Protocol):
    """The settings of one kind of data."""

    def load(self, base: Path) -> Split:
        """Reads the data; relative paths are those of `base`. FormatError when a file does not hold what is stated."""
        ...


SOURCES: Mapping[str, type[DataSource]] = {"arrays": Arrays, "digits": Digits, "text": TextFiles, "tokens": Tokens}

__all__ = ["SOURCES", "DataSource", "Examples", "Split", "batches", "order"]
