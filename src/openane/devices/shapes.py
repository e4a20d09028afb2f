"""Which function of a model in several shapes runs, by the inputs it is given: the one of their shape, or the smallest
that holds them once they are padded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

import numpy as np

from openane.devices.protocol import Arrays, LoadableModel
from openane.errors import DeviceError
from openane.record_classes import dataclass

Shapes = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class ShapeChoice:
    """A function, by what shapes inputs have to be padded, and what of each output that changes is kept."""

    function: str
    padded: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    kept: Mapping[str, tuple[slice, ...]] = field(default_factory=dict)
    padding: Mapping[str, float] = field(default_factory=dict)

    def pad(self, inputs: Mapping[str, np.ndarray]) -> Arrays:
        """The inputs as the function takes them: padded at the end of their dimensions."""
        return {name: self._padded(name, np.asarray(array)) for name, array in inputs.items()}

    def cut(self, outputs: Mapping[str, np.ndarray]) -> Arrays:
        """The outputs without what padding made of them."""
        return {name: array[self.kept[name]] if name in self.kept else array for name, array in outputs.items()}

    def _padded(self, name: str, array: np.ndarray) -> np.ndarray:
        if name not in self.padded:
            return array
        filled = np.full(self.padded[name], self.padding[name], array.dtype)
        filled[tuple(map(slice, array.shape))] = array
        return filled


def choose(functions: Mapping[str, LoadableModel], padding: Mapping[str, float], given: Shapes) -> ShapeChoice:
    """The function for inputs of these shapes. DeviceError lists the shapes there are when none fits."""
    shapes = {name: {port.name: port.shape for port in model.inputs} for name, model in functions.items()}
    for name, own in shapes.items():
        if all(own.get(port, shape) == shape for port, shape in given.items()):
            return ShapeChoice(name)
    for name, own in shapes.items():
        smaller = {port: own[port] for port, shape in given.items() if port in own and own[port] != shape}
        if all(port in padding and _holds(whole, given[port]) for port, whole in smaller.items()):
            return ShapeChoice(name, smaller, _kept(functions, name, given), padding)
    raise DeviceError(_nothing_fits(shapes, padding, given))


def _holds(whole: Sequence[int], part: Sequence[int]) -> bool:
    return len(whole) == len(part) and all(n <= extent for n, extent in zip(part, whole, strict=True))


def _kept(functions: Mapping[str, LoadableModel], chosen: str, given: Shapes) -> dict[str, tuple[slice, ...]]:
    """What of each output of the chosen function belongs to the inputs as they were given: along a dimension that has
    the extent of a padded one in every function, as much as that had; all of it where inputs differ in that."""
    changed: dict[tuple[int, ...], set[int]] = {}
    for number, port in enumerate(functions[chosen].inputs):
        every = _extents([model.inputs[number].shape for model in functions.values()])
        for extents, extent in zip(every, given.get(port.name, ()), strict=False):
            changed.setdefault(extents, set()).add(extent)
    known = {extents: min(found) for extents, found in changed.items() if len(found) == 1 < len(set(extents))}
    return {port.name: tuple(slice(known.get(extents)) for extents in _extents(
        [model.outputs[number].shape for model in functions.values()]))
        for number, port in enumerate(functions[chosen].outputs)}


def _extents(shapes: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Of every dimension its extents in all the shapes."""
    return list(zip(*shapes, strict=True))


def _nothing_fits(shapes: Mapping[str, Shapes], padding: Mapping[str, float], given: Shapes) -> str:
    def text(each: Shapes) -> str:
        return ", ".join(f"{name} {'x'.join(map(str, shape))}" for name, shape in each.items())

    allowed = f"padded is {', '.join(padding)}" if padding else "no input is padded"
    return f"no function takes {text(given)}; there are {'; '.join(map(text, shapes.values()))} ({allowed})"
