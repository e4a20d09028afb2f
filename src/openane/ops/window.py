"""Sliding windows: what kernel, stride, dilation and padding make of each spatial extent. Convolution and pooling,
their shape rules, reference numerics and lowering all read it from here."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from openane.ops.operands import MAXIMUM_ELEMENTS, Arguments, refusal
from openane.record_classes import dataclass
from openane.rounding import ceil_div

PAD_TYPES = ("valid", "same", "custom", "same_lower")


@dataclass(frozen=True, slots=True)
class WindowAxis:
    """One spatial axis. `before` and `after` count padded elements; `overhang` counts what the last window of a
    ceiling-mode pooling reaches beyond `after`."""

    extent: int
    kernel: int
    stride: int
    dilation: int
    before: int
    after: int
    result: int

    @property
    def reach(self) -> int:
        """Elements from the first to the last tap, both included."""
        return (self.kernel - 1) * self.dilation + 1

    @property
    def real(self) -> bool:
        """Whether every window holds an element that is not padding."""
        return self.before < self.reach and (self.result - 1) * self.stride < self.before + self.extent

    @property
    def whole(self) -> bool:
        """Whether the only window is the whole axis, unpadded."""
        return self.result == 1 and self.kernel == self.extent and self.before == self.after == 0

    @property
    def overhang(self) -> int:
        """Elements the last window reads past the padded extent."""
        return max(0, (self.result - 1) * self.stride + self.reach - self.before - self.extent - self.after)


@dataclass(frozen=True, slots=True)
class Window:
    """All spatial axes, outermost first (D, H, W; the last is W)."""

    axes: tuple[WindowAxis, ...]

    @property
    def results(self) -> tuple[int, ...]:
        """Result extents."""
        return tuple(axis.result for axis in self.axes)

    @property
    def kernel(self) -> tuple[int, ...]:
        """Taps per axis."""
        return tuple(axis.kernel for axis in self.axes)

    @property
    def strides(self) -> tuple[int, ...]:
        """Elements between neighbouring windows."""
        return tuple(axis.stride for axis in self.axes)

    @property
    def steps(self) -> tuple[int, ...]:
        """Strides that matter: 1 where there is a single window."""
        return tuple(axis.stride if axis.result > 1 else 1 for axis in self.axes)

    @property
    def whole(self) -> bool:
        """Whether the only window is the whole input, unpadded."""
        return all(axis.whole for axis in self.axes)

    @property
    def dilations(self) -> tuple[int, ...]:
        """Elements between neighbouring taps."""
        return tuple(axis.dilation for axis in self.axes)

    @property
    def padding(self) -> tuple[tuple[int, int], ...]:
        """Padded elements (before, after) per axis, overhang not counted."""
        return tuple((axis.before, axis.after) for axis in self.axes)


def same_padding(extent: int, reach: int, stride: int, lower: bool) -> tuple[int, int]:
    """Padding that gives ceil(extent / stride) results: the odd element goes last, or first when `lower`.

    Evidence: a recorded 3x3 stride-2 `same` convolution of 16 elements pads none in front.
    """
    total = max(0, (ceil_div(extent, stride) - 1) * stride + reach - extent)
    small, large = total // 2, total - total // 2
    return (large, small) if lower else (small, large)


def result_extent(extent: int, reach: int, stride: int, before: int, after: int, ceiling: bool) -> int:
    """Windows that fit; with `ceiling` a last one that starts inside the input or its leading padding counts too."""
    free = extent + before + after - reach
    if not ceiling:
        return free // stride + 1
    count = ceil_div(free, stride) + 1
    return count - 1 if (count - 1) * stride >= extent + before and before + after > 0 else count


def read_window(arguments: Arguments, extents: Sequence[int], kernel: Sequence[int]) -> Window:
    """The window of a convolution or pooling node over spatial `extents`, from its `strides`, `pad_type`, `pad` and,
    where the operation has them, `dilations` and `ceil_mode`. GraphError when they do not fit."""
    ones = (1,) * len(extents)
    pad_type = arguments.text("pad_type", PAD_TYPES)
    zeros = ones + ones if pad_type == "custom" else ()
    return make_window(
        arguments.op, extents, kernel, pad_type=pad_type,
        strides=arguments.vector("strides", ones, minimum=1),
        dilations=arguments.vector("dilations", ones, minimum=1) if arguments.takes("dilations") else ones,
        pad=arguments.vector("pad", tuple(0 for _ in zeros), minimum=0) if zeros else (),
        ceiling=arguments.takes("ceil_mode") and arguments.flag("ceil_mode"))


def _check_ceiling(op: str, pads: Sequence[int], same: bool) -> None:
    """GraphError where results cannot be rounded up."""
    if same:
        raise refusal(op, "ceil_mode", "must be false when pad_type is same or same_lower", "true")
    if pads[::2] != pads[1::2]:
        raise refusal(op, "pad", "must be the same before and after each axis with ceil_mode", list(pads))


def make_window(op: str, extents: Sequence[int], kernel: Sequence[int], *, pad_type: str,
                strides: Sequence[int] = (), dilations: Sequence[int] = (), pad: Sequence[int] = (),
                ceiling: bool = False) -> Window:
    """The window over spatial `extents`; empty strides and dilations are ones, an empty pad is none. `pad` (before and
    after each axis) counts only when `pad_type` is custom. GraphError when a kernel reaches beyond what it slides on.
    """
    same = pad_type.startswith("same")
    pads = tuple(pad) if pad_type == "custom" and len(pad) else (0,) * (2 * len(extents))
    if ceiling:
        _check_ceiling(op, pads, same)
    axes = []
    for i, extent in enumerate(extents):
        stride = strides[i] if len(strides) else 1
        dilation = dilations[i] if len(dilations) else 1
        reach = (kernel[i] - 1) * dilation + 1
        before, after = pads[2 * i:2 * i + 2]
        if same:
            before, after = same_padding(extent, reach, stride, pad_type == "same_lower")
        if reach > extent + before + after:
            raise refusal(op, "x", f"must hold the {reach} elements a kernel reaches over along spatial axis {i}, "
                          "padding included", f"{extent} padded by {before} and {after}")
        result = result_extent(extent, reach, stride, before, after, ceiling)
        axes.append(WindowAxis(extent, kernel[i], stride, dilation, before, after, result))
    if prod(axis.before + axis.extent + axis.after for axis in axes) > MAXIMUM_ELEMENTS:
        raise refusal(op, "pad", f"must leave x with at most {MAXIMUM_ELEMENTS} elements", list(pads))
    return Window(tuple(axes))


def require_elements(op: str, window: Window) -> None:
    """GraphError when a window lies wholly in padding: an average or maximum of nothing."""
    for i, axis in enumerate(window.axes):
        if not axis.real:
            raise refusal(op, "pad", f"leaves a window of spatial axis {i} without an element of x; pad less than the "
                          "kernel", f"kernel {axis.reach}, padding {axis.before} and {axis.after}, {axis.extent} "
                          f"elements, {axis.result} windows {axis.stride} apart")
