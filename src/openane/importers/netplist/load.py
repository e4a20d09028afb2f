"""A net.plist walked unit by unit into a graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import field
from math import prod
from pathlib import Path
from typing import Any

from openane.errors import AneError, FormatError, GraphError
from openane.graph import Graph, Value
from openane.importers.entry import DictionaryEntry
from openane.importers.netplist.document import NetplistNetwork, network, parse
from openane.importers.netplist.neurons import GROUP
from openane.importers.netplist.unit import COMMON, DIMENSIONS, Unit
from openane.importers.netplist.units import HANDLERS
from openane.importers.netplist.weights import TYPES, NetplistWeights
from openane.importers.step import TypedErrors
from openane.ops.build import GraphBuilder
from openane.ops.operands import MAXIMUM_ELEMENTS
from openane.record_classes import dataclass

PORT_TYPES = {"Float16": "fp16", "UInt8": "uint8", "Int8": "int8"}
"""Element types of activations, by the format's names."""
_STRIDES = ("RowStride", "PlaneStride", "DepthStride", "BatchStride", "Interleave")
_INPUT_KEYS = ("BatchSize", "InputChannels", "InputDepth", "InputHeight", "InputWidth", "InputType", "InputName",
               "Name", "OperationName", *(f"Input{key}" for key in _STRIDES))
_OUTPUT_KEYS = ("Bottom", "OutputType", "OutputName", "Name", "OperationName", *(f"Output{key}" for key in _STRIDES))
_EXTENTS = ("BatchSize", "Channels", "Depth", "Height", "Width")
SUFFIX = "@output"
"""What the format's writers append to output names; left out of the graph's."""


def load_netplist(source: str | Path | bytes | Mapping[str, Any],
                  weights: str | Path | Mapping[str, bytes] | None = None) -> Graph:
    """The graph of a net.plist: a file, its bytes, or the document itself.

    `weights` is the folder its weight files lie in (by default the one of the file; only their last component counts
    where a path leads elsewhere), or their contents by the names the document states. Tensors are [N, C, H, W], or
    [N, C, D, H, W] where anything has depth; strides are not kept: the compiler lays surfaces out itself. FormatError,
    GraphError, or UnsupportedError naming unit, key and value.
    """
    folder: Path | None = None
    if isinstance(source, str | Path):
        folder = Path(source).parent
        try:
            source = Path(source).read_bytes()
        except (OSError, ValueError) as error:
            raise FormatError(f"the net.plist cannot be read: {error}") from None
    files = weights if isinstance(weights, Mapping) else {}
    if isinstance(weights, str | Path):
        folder = Path(weights)
    document = parse(source) if isinstance(source, bytes) else source
    try:
        return _Import(network(document), folder, files).graph()
    except AneError:
        raise
    except RecursionError:
        raise FormatError("the net.plist is nested too deeply") from None


@dataclass(slots=True)
class _Import:
    """State of one import: `known` maps port, constant and unit names to values, `uses` counts their readers, `names`
    maps output ports to their names in the graph, `offsets` units to the GOC unit that reads them, `folded` GOC units
    to the convolution whose bias they became."""

    network: NetplistNetwork
    folder: Path | None
    files: Mapping[str, bytes]
    builder: GraphBuilder = field(default_factory=lambda: GraphBuilder("main"))
    known: dict[str, Value] = field(default_factory=dict)
    folded: dict[str, str] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    uses: Counter[str] = field(default_factory=Counter)
    offsets: dict[str, str] = field(default_factory=dict)
    rank: int = 4

    def graph(self) -> Graph:
        """The whole graph."""
        entry = self.network.entry
        units = {name: self.network.object(name, "unit") for name in self.network.units}
        for name, unit in units.items():
            self.uses.update(unit.texts("Bottom"))
            if unit.values.get("Type") == "GOC":
                self.offsets.update(dict.fromkeys(unit.texts("Bottom"), name))
        self.uses.update(bottom for bottom, _ in self.network.outputs.values())
        self.names = _port_names(self.network, units)
        constants = entry.texts("Constants") if "Constants" in entry else ()
        tables = {name: self.network.object(name, "constant") for name in constants}
        self.rank = 5 if any(map(_deep, (*self.network.inputs.values(), *tables.values(), *units.values()))) else 4
        weights = NetplistWeights(entry.texts("Weights") if "Weights" in entry else (), self.folder, self.files)
        for name, port in self.network.inputs.items():
            self._define(name, self._input(name, port))
        for name, table in tables.items():
            self._define(name, self._constant(name, table, weights))
        for name, unit in units.items():
            self._unit(name, unit, units, weights)
        return self._finish()

    def _define(self, name: str, value: Value) -> None:
        if name in self.known:
            raise GraphError(f"net.plist: the name {name!r:.80} is taken")
        self.known[name] = value

    def _input(self, name: str, port: DictionaryEntry) -> Value:
        port.only(*_INPUT_KEYS)
        _check_interleave(port, "InputInterleave")
        shape = self._shape(port, "Input")
        return self.builder.input(name, port.choice("InputType", PORT_TYPES, "Float16"), shape)

    def _shape(self, entry: DictionaryEntry, prefix: str) -> tuple[int, ...]:
        keys = [key if key == "BatchSize" and prefix == "Input" else prefix + key for key in _EXTENTS]
        found = dict(zip(DIMENSIONS, (entry.integer(key, 1, 1) for key in keys), strict=True))
        return tuple(extent for name, extent in found.items() if self.rank == 5 or name != "Depth")

    def _constant(self, name: str, table: DictionaryEntry, weights: NetplistWeights) -> Value:
        table.only("ConstantName", "ConstantType", "ConstantIndex", "ConstantByteOffset", "ConstantInterleave",
                   *(f"Constant{key}" for key in _EXTENTS))
        _check_interleave(table, "ConstantInterleave")
        table.choice("ConstantType", TYPES, "Float16")
        shape = self._shape(table, "Constant")
        if prod(shape) > MAXIMUM_ELEMENTS:
            raise FormatError(f"{table.label} is too large", expected=f"at most {MAXIMUM_ELEMENTS} elements",
                              found=list(shape))
        place = DictionaryEntry(table.label, {**table.values,
                                              "ConstantOffset": table.values.get("ConstantByteOffset", 0)})
        return self.builder.constant(weights.read(place, "Constant", prod(shape), shape), name)

    def _unit(self, name: str, entry: DictionaryEntry, units: Mapping[str, DictionaryEntry],
              weights: NetplistWeights) -> None:
        entry = DictionaryEntry(f"{entry.label} ({entry.text('Type'):.40})", entry.values)
        handler = HANDLERS[entry.choice("Type", {kind: kind for kind in HANDLERS})]
        extra = ("NumGroups",) if entry.values["Type"] == "Conv" else ()
        entry.only(*COMMON, *extra)
        if entry.text("Name", name) != name:
            raise entry.malformed("Name", f"{name!r:.80}, the unit's name")
        self._check_input_types(entry)
        dtype = entry.choice("OutputType", PORT_TYPES, "Float16")
        bias = self._bias_unit(name, units)
        result = self._name(bias or name)
        unit = Unit(entry.label, result if dtype == "fp16" else f"{result}.fp16", self.builder, entry,
                    self._operands(entry), self.rank, weights, units[bias].section("Params") if bias else None)
        if bias is not None:
            self.folded[bias] = name
        with TypedErrors(entry.label, "malformed unit"):
            value = self.known[self.folded[name]] if name in self.folded else handler(unit)
        _check_channels(entry, value)
        if dtype != "fp16":
            value = self.builder.single("cast", result, entry.label, x=value, dtype=dtype)
        self._define(name, value)

    def _bias_unit(self, name: str, units: Mapping[str, DictionaryEntry]) -> str | None:
        """The GOC unit that only adds one number per channel to convolution `name`, which nobody else reads."""
        if units[name].values["Type"] != "Conv" or self.uses[name] != 1 or not _plain_result(units[name]):
            return None
        other = self.offsets.get(name)
        if other is None or not _plain_result(units[other]) or units[other].texts("Bottom") != (name,):
            return None
        params = units[other].section("Params", optional=True)
        group = params.section(GROUP, optional=True)
        bias_only = set(params.values) == {GROUP} and not any(key.startswith("Scale") for key in group.values)
        return other if bias_only and group.values else None

    def _operands(self, entry: DictionaryEntry) -> list[Value]:
        values = []
        for name in entry.texts("Bottom"):
            if name not in self.known:
                raise GraphError(f"{entry.label}: Bottom {name!r:.80} has not been made at this point")
            values.append(self._half(name))
        return values

    def _half(self, name: str) -> Value:
        value = self.known[name]
        if value.dtype == "fp16":
            return value
        return self.builder.single("cast", f"{name}.fp16", x=value, dtype="fp16")

    def _check_input_types(self, entry: DictionaryEntry) -> None:
        for kind in entry.texts("InputType", "Float16"):
            if kind not in PORT_TYPES:
                raise entry.refuse("InputType", kind, f"one of {', '.join(PORT_TYPES)}")

    def _name(self, unit: str) -> str:
        """What the result of `unit` is called: as the only output it feeds, else as the unit; such that no constant
        made for its operands takes an output's name."""
        outputs = [self.names[port] for port, (bottom, _) in self.network.outputs.items() if bottom == unit]
        name = outputs[0] if len(outputs) == 1 else unit
        while any(other != name and other.startswith((f"{name}_", f"{name}.")) for other in self.names.values()):
            name += "."
        return name

    def _finish(self) -> Graph:
        results: dict[str, Value] = {}
        for port, (bottom, entry) in self.network.outputs.items():
            entry.only(*_OUTPUT_KEYS)
            _check_interleave(entry, "OutputInterleave")
            if bottom not in self.known:
                raise GraphError(f"{entry.label}: Bottom {bottom!r:.80} is made by no unit")
            value = self.known[bottom]
            dtype = entry.choice("OutputType", PORT_TYPES, {kind: key for key, kind in PORT_TYPES.items()}[value.dtype])
            if dtype != value.dtype:
                raise entry.refuse("OutputType", dtype, f"the type of unit {bottom!r:.80}, {value.dtype}")
            results[self.names[port]] = value
        return self.builder.finish(results)


def _port_names(network: NetplistNetwork, units: Mapping[str, DictionaryEntry]) -> dict[str, str]:
    """Names of the outputs in the graph: without the suffix, unless that is another port's or unit's name."""
    names: dict[str, str] = {}
    for port, (bottom, _) in network.outputs.items():
        plain = port.removesuffix(SUFFIX)
        taken = plain in network.inputs or plain in names.values() or (plain in units and plain != bottom)
        names[port] = port if taken or not plain else plain
    return names


def _plain_result(entry: DictionaryEntry) -> bool:
    return bool(entry.values.get("OutputType", "Float16") == "Float16")


def _check_channels(entry: DictionaryEntry, value: Value) -> None:
    """GraphError when a unit states other OutputChannels than it gives."""
    if "OutputChannels" in entry:
        stated = entry.integer("OutputChannels", None, 1)
        if value.shape[1] != stated:
            raise GraphError(f"{entry.label}: OutputChannels is {stated}, its operands give {value.shape[1]}")


def _check_interleave(entry: DictionaryEntry, key: str) -> None:
    if entry.integer(key, 1) != 1:
        raise entry.refuse(key, entry.values[key], f"{key} 1")


def _deep(entry: DictionaryEntry) -> bool:
    """Whether the object has an extent along depth, or names that dimension."""
    params = entry.values.get("Params")
    tables = [entry.values, params] if isinstance(params, dict) else [entry.values]
    keys = ("InputDepth", "ConstantDepth", "ReshapedDepth", "KernelDepth")
    if any(table.get(key, 1) != 1 for table in tables for key in keys):
        return True
    named = tables[-1].get("Dimension")
    infos = tables[-1].get("BroadcastInfo")
    sizes = [info.get("Size") for info in infos if isinstance(info, dict) and info.get("Dimension") == "Depth"] \
        if isinstance(infos, list) else []
    return named == "Depth" or (isinstance(named, list) and "Depth" in named) or any(size != 1 for size in sizes)
