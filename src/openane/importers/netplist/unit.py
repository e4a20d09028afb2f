"""One net.plist unit while it is imported: its keys, its operands as fp16 values, and nodes to put in its place."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from openane.errors import FormatError, GraphError
from openane.graph import Value
from openane.importers.entry import DictionaryEntry
from openane.importers.netplist.weights import NetplistWeights
from openane.importers.step import ImportStep
from openane.record_classes import dataclass

DIMENSIONS = ("Batch", "Channel", "Depth", "Height", "Width")
"""The format's axes, outermost first: x [N, C, D, H, W], or [N, C, H, W] where nothing has depth."""

COMMON = ("Name", "Type", "Bottom", "UnescapedName", "UnescapedBottom", "InputType", "OutputType", "OutputChannels",
          "Params")


@dataclass(slots=True)
class Unit(ImportStep):
    """`inputs` are fp16 values of rank `rank`; `bias` is the GOC unit folded into this convolution (see load), or
    None."""

    entry: DictionaryEntry
    inputs: Sequence[Value]
    rank: int
    weights: NetplistWeights
    bias: DictionaryEntry | None = None
    joint: ClassVar[str] = "."

    @property
    def params(self) -> DictionaryEntry:
        """The unit's `Params`; empty when it has none."""
        return self.entry.section("Params", optional=True)

    @property
    def x(self) -> Value:
        """The only operand. GraphError when there are several."""
        return self.operands(1)[0]

    def operands(self, count: int) -> Sequence[Value]:
        """Exactly `count` operands. GraphError when there are more or fewer."""
        if len(self.inputs) != count:
            raise GraphError(f"{self.entry.label}: Bottom must name {count} operand{'s' * (count > 1)}; "
                             f"found {len(self.inputs)}")
        return self.inputs

    def axes(self) -> Mapping[str, int]:
        """Axis numbers by the format's names."""
        names = DIMENSIONS if self.rank == 5 else [name for name in DIMENSIONS if name != "Depth"]
        return {name: axis for axis, name in enumerate(names)}

    def extents(self, entry: DictionaryEntry, prefix: str, suffixes: Sequence[str] = DIMENSIONS) -> tuple[int, ...]:
        """Extents in the order of axes, from keys `prefix` + suffix; missing ones are 1."""
        found = {name: entry.integer(prefix + key, 1, 1) for name, key in zip(DIMENSIONS, suffixes, strict=True)}
        return tuple(found[name] for name in self.axes())

    def pads(self, params: DictionaryEntry) -> dict[str, Any]:
        """MIL's padding of the unit's Pad keys."""
        sides = (("Front", "Back"), ("Top", "Bot"), ("Left", "Right"))
        pad = [params.integer(f"Pad{side}", 0) for pair in sides[5 - self.rank:] for side in pair]
        return {"pad_type": "custom", "pad": pad} if any(pad) else {"pad_type": "valid"}

    def steps(self, params: DictionaryEntry) -> tuple[int, ...]:
        """Strides in the order of the spatial axes. `Step` states y, x and then z (inferred: every file at hand has
        equal ones); a single number stands for all."""
        steps = params.integers("Step", 1) if "Step" in params else (1,)
        if len(steps) not in (1, 2, 3):
            raise params.malformed("Step", "one to three integers")
        y, x = steps[:2] if len(steps) > 1 else steps * 2
        z = steps[2] if len(steps) == 3 else 1
        return (z, y, x) if self.rank == 5 else (y, x)

    def kernel(self, params: DictionaryEntry) -> tuple[int, ...]:
        """Kernel extents in the order of the spatial axes."""
        depth, height, width = (params.integer(f"Kernel{side}", 1, 1) for side in ("Depth", "Height", "Width"))
        return (depth, height, width) if self.rank == 5 else (height, width)


Handler = Callable[[Unit], Value]


def dimensions(entry: DictionaryEntry, key: str, axes: Mapping[str, int], default: str | None = None) -> tuple[int,
                                                                                                               ...]:
    """Axis numbers of the dimension or dimensions named under `key`."""
    names = entry.texts(key, default)
    for name in names:
        if name not in axes:
            raise entry.refuse(key, name, f"one of {', '.join(axes)}", "must name a dimension")
    return tuple(axes[name] for name in names)


def channel_vector(data: np.ndarray, rank: int) -> np.ndarray:
    """Numbers per channel as an operand that broadcasts against [N, C, ...]."""
    return data.reshape(1, -1, *(1,) * (rank - 2))


def check_count(entry: DictionaryEntry, key: str, count: int, channels: int) -> None:
    """FormatError unless `count`, stated under `key`, is the number of channels."""
    if count != channels:
        raise FormatError(f"{entry.label}: {key}", expected=f"{channels}, the channels of the operand", found=count)
