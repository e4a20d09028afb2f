"""Checkpoints of llama2.c: `.bin` files of its versions 0 (float32), 1 (float32) and 2 (int8 in groups).

Version 0 begins with seven int32: width, hidden, layers, heads, kv heads, vocabulary (negative where the output has a
matrix of its own), context; then the tensors, each for all layers. Versions 1 and 2 begin with `ak42` and the version,
then the same numbers and a byte that says whether the output is tied; tensors start at byte 256. In version 2 a matrix
is its int8 numbers followed by a float32 scale per group. Rotary pairs are neighbours there; rows of queries and keys
are put in the order of halves that everything else here uses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod
from pathlib import Path

import numpy as np

from openane.errors import FormatError
from openane.models.config import Config, Rope

MAGIC = 0x616B3432
HEADER = 256
NUMBERS = 7


def _version(first: np.ndarray, name: str) -> int:
    """The version the first words of a file state; 0 of those that state none."""
    if int(first[0]) != MAGIC:
        return 0
    if int(first[1]) not in (1, 2):
        raise FormatError(f"version of {name}", expected="1 or 2", found=int(first[1]))
    return int(first[1])


class Llama2cCheckpoint:
    """A checkpoint, mapped: `config`, and `weights` by the names of `naming`, read when asked for."""

    def __init__(self, path: Path) -> None:
        """FormatError when it is no checkpoint, or its size is not what its numbers ask for."""
        size = path.stat().st_size
        if size < HEADER:
            raise FormatError(f"{path.name} is not a checkpoint of llama2.c", expected=f"{HEADER} bytes or more",
                              found=size)
        self._bytes = np.memmap(path, np.uint8, mode="r")
        first = self._words(0, 2 + NUMBERS + 2)
        self.version = _version(first, path.name)
        start = 2 if self.version else 0
        numbers = [int(number) for number in first[start:start + NUMBERS]]
        tied = numbers[5] > 0 if not self.version else bool(self._bytes[4 * (2 + NUMBERS)])
        if tied and numbers[5] < 1:  # llama2.c writes it negative in later versions too, after it wrote version 0
            raise FormatError(f"vocabulary of {path.name}", expected="a positive number", found=numbers[5])
        self.config = _config(numbers, tied)
        # the group's size follows the byte that says whether the output is tied, unaligned
        at = 4 * (2 + NUMBERS) + 1
        self._group = int(self._bytes[at:at + 4].view("<i4")[0]) if self.version == 2 else 0
        if self.version == 2 and self._group < 1:
            raise FormatError(f"group size of {path.name}", expected="a positive number", found=self._group)
        self._places: dict[str, tuple[int, tuple[int, ...], bool]] = {}
        end = self._lay_out()
        if end != size:
            raise FormatError(f"{path.name} has another size than its configuration asks for", expected=end, found=size)

    @property
    def weights(self) -> Mapping[str, np.ndarray]:
        """The tensors by our names."""
        return _Weights(self)

    def names(self) -> Iterator[str]:
        """Every weight."""
        for name in self._places:
            if name in _PER_LAYER:
                yield from (f"layers.{layer}.{name}" for layer in range(self.config.layers))
            else:
                yield name

    def read(self, name: str) -> np.ndarray:
        """One weight, float32. KeyError when there is none of that name."""
        prefix, _, rest = name.partition(".")
        layer, short = (int(rest.split(".")[0]), rest.split(".", 1)[1]) if prefix == "layers" else (0, name)
        if layer >= self.config.layers:
            raise KeyError(name)
        place, shape, quantised = self._places[short]
        each = shape[1:] if short in _PER_LAYER else shape
        count = prod(each)
        if quantised:
            place += layer * (count + 4 * (count // self._group))
            numbers = self._bytes[place:place + count].view(np.int8).reshape(-1, self._group)
            scales = self._floats(place + count, count // self._group)
            found = (numbers * scales[:, None]).astype(np.float32).reshape(each)
        else:
            found = self._floats(place + layer * count * 4, count).reshape(each)
        return _halves_apart(found, self.config.head_size) if short in ("query.weight", "key.weight") else found

    def _lay_out(self) -> int:
        """Finds every tensor; the end of the last."""
        config = self.config
        at = HEADER if self.version else 4 * NUMBERS
        order = _tensors(config, self.version)
        for name, shape in order.items():
            count = prod(shape)
            quantised = self.version == 2 and not name.endswith(("norm1.weight", "norm2.weight", "norm.weight"))
            if quantised and (count // shape[0] if name in _PER_LAYER else count) % self._group:
                raise FormatError(f"{name} of the checkpoint", expected=f"groups of {self._group}", found=shape)
            self._places[name] = at, shape, quantised
            at += count + 4 * (count // self._group) if quantised else 4 * count
        for name in [name for name in self._places if name.startswith("unused")]:
            del self._places[name]
        return at

    def _words(self, start: int, count: int) -> np.ndarray:
        return self._bytes[start:start + 4 * count].view("<i4")

    def _floats(self, start: int, count: int) -> np.ndarray:
        found: np.ndarray = self._bytes[start:start + 4 * count].view("<f4")
        return np.asarray(found)


class _Weights(Mapping[str, np.ndarray]):
    def __init__(self, checkpoint: Llama2cCheckpoint) -> None:
        self._checkpoint = checkpoint
        self._names = dict.fromkeys(checkpoint.names())

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self._names:
            raise KeyError(name)
        return self._checkpoint.read(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


_PER_LAYER = frozenset(f"{part}.weight" for part in
                       ("norm1", "norm2", "query", "key", "value", "output", "gate", "up", "down"))


def _config(numbers: list[int], tied: bool) -> Config:
    width, hidden, layers, heads, kv_heads, vocabulary, context = numbers
    if min(width, heads) < 1 or width % heads:
        raise FormatError("numbers of a checkpoint of llama2.c", expected="a width that is a multiple of the heads",
                          found=numbers)
    return Config("llama", abs(vocabulary), width, layers, heads, kv_heads, width // heads, hidden, context, 1e-5,
                  "silu", tied, rope=Rope(), stops=(1, 2), start=1)


def _tensors(config: Config, version: int) -> dict[str, tuple[int, ...]]:
    """Shapes in the file's order."""
    layers, width, hidden = config.layers, config.width, config.hidden
    key = config.kv_heads * config.head_size
    norm1, norm2 = {"norm1.weight": (layers, width)}, {"norm2.weight": (layers, width)}
    embedding: dict[str, tuple[int, ...]] = {"embedding.weight": (config.vocabulary, width)}
    norm: dict[str, tuple[int, ...]] = {"norm.weight": (width,)}
    attention = {"query.weight": (layers, width, width), "key.weight": (layers, key, width),
                 "value.weight": (layers, key, width), "output.weight": (layers, width, width)}
    feed = {"gate.weight": (layers, hidden, width), "down.weight": (layers, width, hidden),
            "up.weight": (layers, hidden, width)}
    head: dict[str, tuple[int, ...]] = {} if config.tied else {"head.weight": (config.vocabulary, width)}
    if version:
        return norm1 | norm2 | norm | embedding | attention | feed | head
    tables: dict[str, tuple[int, ...]] = {f"unused.{kind}": (config.context, config.head_size // 2)
                                          for kind in ("cosines", "sines")}
    return embedding | norm1 | attention | norm2 | feed | norm | tables | head


def _halves_apart(matrix: np.ndarray, size: int) -> np.ndarray:
    """Rows of every head: those of even number first."""
    heads = matrix.reshape(-1, size // 2, 2, matrix.shape[1])
    return np.ascontiguousarray(heads.swapaxes(1, 2)).reshape(matrix.shape)
