"""One espresso layer while it is imported: its attributes, its operands, and nodes to put in its place."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, ClassVar

import numpy as np

from openane.errors import FormatError, GraphError
from openane.graph import Value
from openane.importers.entry import DictionaryEntry
from openane.importers.espresso.files import Blobs, Shape
from openane.importers.step import ImportStep
from openane.ops.operands import MAXIMUM_ELEMENTS
from openane.record_classes import dataclass

COMMON = frozenset(["type", "name", "top", "bottom", "weights", "attributes", "debug_info", "version", "nd_mode"])


@dataclass(slots=True)
class EspressoLayer(ImportStep):
    """`names` are the names its results take, `shapes` what the shape file states for them (None where nothing)."""

    entry: DictionaryEntry
    inputs: Sequence[Value]
    names: Sequence[str]
    shapes: Sequence[Shape | None]
    blobs: Blobs
    joint: ClassVar[str] = "."

    def known(self, *keys: str) -> None:
        """UnsupportedError for an attribute that is neither common, a hint, nor one of `keys`, and is switched on;
        one that is 0, false or empty is taken to be off."""
        for key, value in self.entry.values.items():
            if key not in COMMON and key not in keys and not key.startswith("hint_") and value not in (0, "", {}, []):
                raise self.entry.refuse(key, value, f"{key} 0, or one of {', '.join(sorted(keys)) or 'no attributes'}",
                                        "this attribute is not understood")
        if self.entry.values.get("weights"):
            raise self.entry.refuse("weights", ", ".join(self.entry.section("weights").values),
                                    "weights as blob_weights or blob_weights_f16: decompress the model first",
                                    "compressed weights are not read")

    @property
    def x(self) -> Value:
        """The only operand."""
        return self.operands(1)[0]

    def operands(self, count: int) -> Sequence[Value]:
        """Exactly `count` operands. GraphError when there are more or fewer."""
        if len(self.inputs) != count:
            raise GraphError(f"{self.entry.label}: bottom must name {count} blobs; found {len(self.inputs)}")
        return self.inputs

    def require(self, **values: int) -> None:
        """UnsupportedError for an attribute that has another value than the one stated here, or 0 where it is absent
        and the value is 0."""
        for key, value in values.items():
            if key in self.entry and self.entry.values[key] != value:
                raise self.entry.refuse(key, self.entry.values[key], f"{key} {value}")

    def weight(self, shape: tuple[int, ...]) -> np.ndarray:
        """The weights, in fp32 or fp16, as fp16 of `shape`."""
        if prod(shape) > MAXIMUM_ELEMENTS:
            raise FormatError(f"{self.entry.label}: the weights are too large",
                              expected=f"at most {MAXIMUM_ELEMENTS} elements", found=list(shape))
        for key, dtype in (("blob_weights", "<f4"), ("blob_weights_f16", "<f2")):
            if key in self.entry:
                return self.blobs.read(self.entry, key, prod(shape), dtype).reshape(shape)
        raise self.entry.refuse("blob_weights", None, "blob_weights or blob_weights_f16: decompress the model first",
                                "weights must be fp32 or fp16")

    def bias(self, channels: int) -> np.ndarray | None:
        """The bias of every channel, where the layer has one."""
        if not self.entry.flag("has_biases"):
            return None
        return self.blobs.read(self.entry, "blob_biases", channels, "<f4", filled=True)

    def finish(self, op: str, functions: Mapping[str, str], **operands: Any) -> Value:
        """A node, followed by the function that is switched on: `functions` gives operations by attribute."""
        switched = [function for key, function in functions.items() if self.entry.flag(key)]
        if len(switched) > 1:
            raise GraphError(f"{self.entry.label}: at most one of {', '.join(functions)} can be 1")
        if not switched:
            return self.add(op, **operands)
        return self.add(switched[0], x=self.add(op, "linear", **operands))

    def padding(self, kernel: Sequence[int], strides: Sequence[int]) -> dict[str, Any]:
        """MIL's padding (height, width) of pad_mode 0 (as stated), 1 (same) and 2 (valid)."""
        entry = self.entry
        self.require(pad_fill_mode=0, pad_value=0)
        mode = entry.choice("pad_mode", {0: "custom", 1: "same", 2: "valid"}, 0)
        pad = [entry.integer(f"pad_{side}", 0) for side in "tblr"]
        if mode == "same":
            return {"pad_type": "same"}
        return {"pad_type": "custom", "pad": pad} if mode == "custom" and any(pad) else {"pad_type": "valid"}


Result = Value | tuple[Value, ...]
Handler = Callable[[EspressoLayer], Result]

WINDOW = ("pad_l", "pad_r", "pad_t", "pad_b", "pad_mode", "pad_fill_mode", "pad_value", "stride_x", "stride_y")
