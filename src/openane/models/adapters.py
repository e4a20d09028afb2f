"""LoRA adapters as persistent buffers of a compiled model: swapped by writing them, without compiling anything.

A projection W gains scale * B @ A, A [rank, inputs], B [outputs, rank]. Projections that the graph computes as one
(query, key and value) have one pair of matrices: their A below each other, their B along a diagonal of blocks. Each
group of projections has two states for all layers, `NAME.a` [1, layers, rank, inputs] and `NAME.b` [1, layers,
outputs, rank]; zeros are no adapter.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from openane.errors import FormatError, UnsupportedError
from openane.graph import Value
from openane.models.config import Config
from openane.models.layers import gate_scale
from openane.models.naming import LINEAR, LLAMA_PARTS
from openane.models.rope import order
from openane.models.weights import Tensors
from openane.ops.build import GraphBuilder


@dataclass(frozen=True, slots=True)
class ProjectionGroup:
    """Projections the graph computes as one, by name; `norm`: the normalisation they read."""

    parts: tuple[str, ...]
    norm: str = ""

    def sizes(self, config: Config) -> dict[str, int]:
        """Outputs of each part."""
        return {part: config.sizes[part][0] for part in self.parts}

    def inputs(self, config: Config) -> int:
        """Inputs of every part."""
        return config.sizes[self.parts[0]][1]


GROUPS = {"attention": ProjectionGroup(("query", "key", "value"), norm="norm1"),
          "output": ProjectionGroup(("output",)),
          "gate": ProjectionGroup(("gate",), norm="norm2"), "up": ProjectionGroup(("up",), norm="norm2"),
          "down": ProjectionGroup(("down",))}


def _group(part: str) -> tuple[str, ProjectionGroup]:
    """The group a projection belongs to, and its name."""
    return next((name, group) for name, group in GROUPS.items() if part in group.parts)



@dataclass(frozen=True, slots=True)
class Slots:
    """Room for adapters of a model: projections (`query`, `value`, ...) and the largest rank."""

    parts: frozenset[str]
    rank: int

    def __post_init__(self) -> None:
        known = {part for group in GROUPS.values() for part in group.parts}
        if not self.parts or not self.parts <= known or type(self.rank) is not int or not 0 < self.rank <= 1024:
            raise FormatError("room for adapters",
                              expected=f"some of {', '.join(sorted(known))} and a rank of 1 to 1024",
                              found=f"{', '.join(sorted(self.parts)) or 'none'} and {self.rank}")

    def shapes(self, config: Config) -> dict[str, tuple[int, int, int, int]]:
        """Shape of every state by name. UnsupportedError for parts that are divided among experts."""
        if config.experts is not None and (divided := self.parts & {"gate", "up", "down"}):
            raise UnsupportedError(f"room for adapters of {', '.join(sorted(divided))}", "experts take none",
                                   remedy="leave room for query, key, value and output")
        shapes = {}
        for name, group in GROUPS.items():
            parts = [part for part in group.parts if part in self.parts]
            if parts and (config.gated or name != "gate"):
                rank, outputs = self.rank * len(parts), sum(group.sizes(config).values())
                shapes[f"{name}.a"] = (1, config.layers, rank, group.inputs(config))
                shapes[f"{name}.b"] = (1, config.layers, outputs, rank)
        return shapes


class Adapted:
    """The states of a graph, and what they add to its projections."""

    def __init__(self, builder: GraphBuilder, config: Config, slots: Slots) -> None:
        self._builder = builder
        self._held = {name: builder.read(builder.state(name, "fp16", shape))
                      for name, shape in slots.shapes(config).items()}

    def added(self, result: Value, source: Value, group: str, layer: int) -> Value:
        """result + source @ A^T @ B^T of one layer; both [1, tokens, features]."""
        if f"{group}.a" not in self._held:
            return result
        low = self._builder.single("matmul", x=source, y=self._layer(f"{group}.a", layer), transpose_y=True)
        high = self._builder.single("matmul", x=low, y=self._layer(f"{group}.b", layer), transpose_y=True)
        return self._builder.single("add", x=result, y=high)

    def _layer(self, name: str, layer: int) -> Value:
        whole = self._held[name]
        _, _, rows, columns = whole.shape
        part = self._builder.single("slice_by_index", x=whole, begin=[0, layer, 0, 0],
                                    end=[1, layer + 1, rows, columns])
        return self._builder.single("reshape", x=part, shape=(1, rows, columns))


@dataclass(frozen=True, slots=True)
class Adapter:
    """A and B by (layer, projection); B has the adapter's scale in it. float32."""

    matrices: Mapping[tuple[int, str], tuple[np.ndarray, np.ndarray]]

    def states(self, config: Config, slots: Slots, gains: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """What the states hold, fp16; `gains` are those the graph has in its weights, by normalisation. FormatError
        when there is no room for a projection, or the shapes differ."""
        made = {name: np.zeros(shape, np.float16) for name, shape in slots.shapes(config).items()}
        for (layer, part), (down, up) in self.matrices.items():
            name, group = _group(part)
            sizes, inputs = group.sizes(config), group.inputs(config)
            rank = down.shape[0]
            if part not in slots.parts or f"{name}.a" not in made or rank > slots.rank or layer >= config.layers:
                raise FormatError(f"there is no room for an adapter of layer {layer}, {part}",
                                  expected=f"{', '.join(sorted(slots.parts))} up to rank {slots.rank}, "
                                           f"{config.layers} layers", found=f"rank {rank}")
            if down.shape != (rank, inputs) or up.shape != (sizes[part], rank):
                raise FormatError(f"adapter of layer {layer}, {part}", expected=[[rank, inputs], [sizes[part], rank]],
                                  found=[list(down.shape), list(up.shape)])
            column = [p for p in group.parts if p in slots.parts].index(part) * slots.rank
            row = sum(sizes[p] for p in group.parts[:group.parts.index(part)])
            gain = gains.get(f"layers.{layer}.{group.norm}", np.float32(1))
            made[f"{name}.a"][0, layer, column:column + rank] = _halves(down * gain, layer, part)
            made[f"{name}.b"][0, layer, row:row + sizes[part], column:column + rank] = \
                _halves(_ordered(config, part, up) * _folded(config, part), layer, part)
        return made


def _halves(values: np.ndarray, layer: int, part: str) -> np.ndarray:
    """fp16. FormatError for numbers that it does not hold."""
    with np.errstate(over="ignore", invalid="ignore"):
        half = values.astype(np.float16)
    if not np.isfinite(half).all():
        raise FormatError(f"adapter of layer {layer}, {part}", expected="numbers that fp16 holds, up to 65504",
                          found="larger ones, or NaN")
    return half


def _folded(config: Config, part: str) -> float:
    """What the graph has multiplied a projection's weights by."""
    scale = config.output_scale
    return {"query": config.query_scale, "gate": gate_scale(config), "output": scale, "down": scale}.get(part, 1.0)


def _ordered(config: Config, part: str, up: np.ndarray) -> np.ndarray:
    """Rows of queries and keys in the order of rotary pairs that the graph has."""
    places = order(config.rope, config.head_size) if config.positions == "rotary" else None
    if places is None or part not in ("query", "key"):
        return up
    return up.reshape(-1, len(places), up.shape[1])[:, places].reshape(up.shape)


NEUTRAL = {"peft_type": "LORA", "use_dora": False, "fan_in_fan_out": False, "alpha_pattern": {}, "rank_pattern": {},
           "lora_bias": False, "modules_to_save": [], "layer_replication": []}
"""Fields of an adapter_config.json that change the numbers, and what is built."""


def _scale(file: Path) -> float:
    """What products of an adapter are scaled by. FormatError where the configuration does not say it, UnsupportedError
    for adapters of another kind."""
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
        rank, alpha = document["r"], document["lora_alpha"]
        if type(rank) is not int or rank < 1:
            raise ValueError(f"r = {rank!r}")
        scale = alpha / (math.sqrt(rank) if document.get("use_rslora", False) else rank)
        if not math.isfinite(scale):
            raise ValueError("lora_alpha / r is no number")
        other = [name for name, built in NEUTRAL.items() if document.get(name) and document[name] != built]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        raise FormatError(file.name, expected="r and lora_alpha", found=error) from None
    if other:
        raise UnsupportedError(f"{other[0]} of {file.name}", "adapters add alpha / r * B @ A to every projection",
                               limit=NEUTRAL[other[0]], found=document[other[0]])
    return float(scale)


_WEIGHT = re.compile(r"layers\.(\d+)\.(.+)\.lora_([AB])\.weight$")


def load_adapter(folder: str | Path) -> Adapter:
    """An adapter of PEFT: `adapter_config.json`, `adapter_model.safetensors`, for the Llama family's projections.
    FormatError when something is missing or not a LoRA adapter."""
    folder = Path(folder)
    if missing := [name for name in ("adapter_config.json", "adapter_model.safetensors")
                   if not (folder / name).is_file()]:
        raise FormatError(f"{folder} holds no adapter of PEFT", expected=missing[0],
                          found="a folder without it" if folder.is_dir() else "no such folder")
    scale = _scale(folder / "adapter_config.json")
    found: dict[tuple[int, str], dict[str, np.ndarray]] = {}
    with Tensors([folder / "adapter_model.safetensors"]) as tensors:
        for name in tensors:
            match = _WEIGHT.search(name)
            part = LLAMA_PARTS.get(match[2], "") if match else ""
            if match is None or part not in LINEAR:
                raise FormatError("an adapter's weight", found=name,
                                  expected="layers.N.PROJECTION.lora_A.weight of attention or feed-forward parts")
            found.setdefault((int(match[1]), part), {})[match[3]] = np.asarray(tensors[name], np.float32)
    if any(len(pair) != 2 for pair in found.values()):
        raise FormatError("an adapter's weights", expected="lora_A and lora_B for every projection", found=len(found))
    return Adapter({key: (pair["A"], pair["B"] * scale) for key, pair in found.items()})
