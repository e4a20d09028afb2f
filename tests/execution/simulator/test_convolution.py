"""Neural-engine operations against loops over every element, with coefficients in the engine's own packing."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.h13 import CHIP, coefficients_at, layout_of, table_bytes
from support.placement import dense_channels, grouped_channels, stream_sizes

from openane.chips.coefficients import Channel
from openane.engine import (
    Access,
    Activation,
    ChannelMaximum,
    ChannelProduct,
    Coefficients,
    CoefficientStream,
    Convolution,
    MatrixProduct,
    PassThrough,
    Post,
)
from openane.engine.table import Symmetry, Table, TableKind
from openane.errors import SimulationError
from openane.program import Buffer, Role
from openane.simulator import LoadedProgram, load_operations
from openane.simulator.arithmetic import encode_away

Shape = tuple[int, int, int, int, int]


def access(slot: int, shape: Shape) -> Access:
    return Access(slot=slot, shape=shape, strides=layout_of(shape).strides)


def buffers(*shapes: Shape) -> list[Buffer]:
    return [Buffer(f"b{slot}", slot, Role.SCRATCH, layout_of(shape).size, layout_of(shape))
            for slot, shape in enumerate(shapes, 4)]


def tensor(loaded: LoadedProgram, name: str, shape: Shape) -> np.ndarray:
    return np.ndarray(shape, np.float16, loaded.buffers[name].data, 0, layout_of(shape).strides)


def packed(weights: np.ndarray, bias: np.ndarray | None, placed: list[Channel], slot: int = 1,
           lanes: int = 1, table: bytes = b"") -> tuple[bytes, Coefficients]:
    """Constants that hold weights [channels, rows] at the given places."""
    sizes = stream_sizes(placed, weights.shape[1])
    section = {core: np.zeros(size // 2, np.float16) for core, size in sizes.items()}
    for stream in section.values():
        stream[:len(table) // 2] = np.frombuffer(table, np.float16)
    for number, channel in enumerate(placed):
        for row, value in enumerate(weights[number]):
            section[channel.core][channel.weights + row * channel.step] = value
        if bias is not None and channel.bias is not None:
            section[channel.core][channel.bias] = bias[number]
    streams, data = [], b""
    for core in sorted(section):
        streams.append(CoefficientStream(core, len(data), section[core].nbytes))
        data += section[core].tobytes()
    return data, coefficients_at(slot, tuple(streams), lanes=lanes, bias=bias is not None, table=bool(table))


def streams_of(coefficients: Coefficients) -> tuple[CoefficientStream, ...]:
    (section,) = coefficients.sections
    return tuple(section.streams)


def convolved(x: np.ndarray, w: np.ndarray, bias: np.ndarray | None, result: Shape, op: Convolution) -> np.ndarray:
    """Element by element in float64; w is [N, Cout, inputs, Kd, Kh, Kw]."""
    out = np.zeros(result)
    inputs = w.shape[2]
    for n, o, d, h, y in product(*map(range, result)):
        total = 0.0 if bias is None else float(bias[n, o])
        for i, *taps in product(range(inputs), *map(range, op.kernel)):
            channel = o * op.unicast + i if op.unicast else i
            place = [at * s + t - p for at, s, t, p in zip((d, h, y), op.stride, taps, op.padding, strict=True)]
            if all(0 <= at < extent for at, extent in zip(place, x.shape[2:], strict=True)):
                total += float(x[(n, channel, *place)]) * float(w[(n, o, i, *taps)])
        out[n, o, d, h, y] = total
    return out


def small(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Multiples of 1/8 in +-2: products and their sums are exact in every arithmetic."""
    return (rng.integers(-16, 17, shape) / 8).astype(np.float16)


@st.composite
def cases(draw: st.DrawFn) -> tuple[Convolution, int, int, int, bool, str]:
    kind = draw(st.sampled_from(["dense", "grouped", "shared", "depthwise", "unicast"]))
    kernel = draw(st.tuples(st.integers(1, 2), st.integers(1, 3), st.integers(1, 3)))
    stride = draw(st.tuples(st.integers(1, 2), st.integers(1, 3), st.integers(1, 3)))
    padding = tuple(draw(st.integers(0, k)) for k in kernel)
    groups = 1 if kind == "dense" else draw(st.integers(1, 3))
    outputs = draw(st.integers(1, 20))
    unicast = {"depthwise": 1, "unicast": draw(st.integers(2, 3))}.get(kind, 0)
    inputs = outputs * unicast if unicast else draw(st.integers(1, 4))
    extra = draw(st.tuples(st.integers(0, 1), st.integers(0, 2), st.integers(0, 2)))
    extents = draw(st.tuples(st.integers(2, 2), st.integers(3, 5), st.integers(3, 5)))
    out = tuple(max(1, (e + 2 * p - k) // s + more) for e, p, k, s, more in
                zip(extents, padding, kernel, stride, extra, strict=True))
    op = Convolution(source=access(4, (groups, inputs, *extents)), result=access(5, (groups, outputs, *out)),
                     kernel=kernel, stride=stride, padding=padding, unicast=unicast,  # type: ignore[arg-type]
                     shared=kind == "shared")
    return op, draw(st.integers(0, 2**32 - 1)), draw(st.sampled_from([1, 2, 4])), groups, draw(st.booleans()), kind


@settings(max_examples=60, deadline=None)
@given(cases(), st.sampled_from(["exact", "fast"]))
def test_every_kind_of_convolution(case: tuple[Convolution, int, int, int, bool, str], arithmetic: str) -> None:
    op, seed, lanes, groups, with_bias, kind = case
    rng = np.random.default_rng(seed)
    outputs = op.result.shape[1]
    inputs = op.unicast or op.source.shape[1]
    sets = 1 if kind == "shared" else groups
    rows = inputs * int(np.prod(op.kernel))
    w, x = small(rng, (sets, outputs, rows)), small(rng, op.source.shape)
    bias = small(rng, (sets, outputs)) if with_bias else None
    if op.unicast:
        placed = dense_channels(sets * outputs, rows, 1, bias=with_bias)
    elif sets == 1:
        placed = dense_channels(outputs, rows, lanes, bias=with_bias)
    else:
        placed = grouped_channels(sets, outputs, rows, lanes, bias=with_bias)
    flat_bias = None if bias is None else bias.reshape(-1)
    constants, coefficients = packed(w.reshape(-1, rows), flat_bias, placed, lanes=lanes)
    full = Convolution(source=op.source, result=op.result, kernel=op.kernel, stride=op.stride, padding=op.padding,
                       unicast=op.unicast, shared=op.shared, coefficients=coefficients)
    loaded = load_operations([full], buffers(op.source.shape, op.result.shape), constants, arithmetic=arithmetic,
                             chip=CHIP)
    tensor(loaded, "b4", op.source.shape)[...] = x
    report = loaded.run()
    each = np.broadcast_to(w, (groups, outputs, rows)).reshape(groups, outputs, inputs, *op.kernel)
    every_bias = None if bias is None else np.broadcast_to(bias, (groups, outputs))
    expected = encode_away(convolved(x, each, every_bias, op.result.shape, op)).view(np.float16)
    found = tensor(loaded, "b5", op.result.shape)
    np.testing.assert_array_equal(found, expected)
    task = report.tasks[0]
    assert (task.arithmetic, task.low, task.high) == (arithmetic, float(found.min()), float(found.max()))


@pytest.mark.parametrize("arithmetic", ["exact", "fast"])
def test_strides_of_a_kernel_of_one_tap_with_padding(arithmetic: str) -> None:
    x = np.arange(1, 8, dtype=np.float16)
    for padding, expected in ((1, [0, 2, 4, 6, 0]), (2, [0, 1, 3, 5, 7, 0])):
        source, result = (1, 1, 1, 1, 7), (1, 1, 1, 1, len(expected))
        constants, coefficients = packed(np.float16([[1]]), None, dense_channels(1, 1, 1))
        op = Convolution(source=access(4, source), result=access(5, result), stride=(1, 1, 2),
                         padding=(0, 0, padding), coefficients=coefficients)
        loaded = load_operations([op], buffers(source, result), constants, arithmetic=arithmetic, chip=CHIP)
        tensor(loaded, "b4", source)[...] = x
        loaded.run()
        assert tensor(loaded, "b5", result).reshape(-1).tolist() == expected


@pytest.mark.parametrize("workspace", [8, 60, 500])
def test_tiles_do_not_show(workspace: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    for unicast in (0, 1):
        monkeypatch.undo()
        shape: Shape = (1, 6, 1, 9, 11)
        rows = 9 if unicast else 54
        placed = dense_channels(6, 9, 1) if unicast else dense_channels(6, 54, 1)
        constants, coefficients = packed(small(rng, (6, rows)), None, placed)
        op = Convolution(source=access(4, shape), result=access(5, shape), kernel=(1, 3, 3), padding=(0, 1, 1),
                         unicast=unicast, coefficients=coefficients)
        results = []
        for limit in (1 << 20, workspace):
            monkeypatch.setattr("openane.simulator.convolution.WORKSPACE", limit)
            loaded = load_operations([op], buffers(shape, shape), constants, chip=CHIP)
            tensor(loaded, "b4", shape)[...] = small(np.random.default_rng(1), shape)
            loaded.run()
            results.append(tensor(loaded, "b5", shape).copy())
        np.testing.assert_array_equal(results[0], results[1])


TABLE = Table(-np.inf, np.inf, -np.inf, np.inf, tuple(float(k) for k in range(33)), 0.5, 0.0, 2.0, 0.0, exponent=2,
              kind=TableKind.FROM_START, symmetry=Symmetry.NONE)


def test_the_post_stage_comes_in_order() -> None:
    x = np.float16([[1, -2, 3, 0.5]])
    shape: Shape = (1, 1, 1, 1, 4)
    constants, coefficients = packed(np.float16([[2]]), np.float16([1]), dense_channels(1, 1, 1, bias=True, table=True),
                                     table=table_bytes(TABLE))
    for activation, function in ((Activation.NONE, lambda v: v), (Activation.RELU, lambda v: np.maximum(v, 0)),
                                 (Activation.TABLE, lambda v: np.where(v < 0, v / 2, np.where(v < 8, v * 4, v * 2)))):
        used = coefficients_at(1, streams_of(coefficients), bias=True, table=True)
        op = Convolution(source=access(4, shape), result=access(5, shape), coefficients=used,
                         post=Post(bias=0.5, scale=3.0, activation=activation))
        loaded = load_operations([op], buffers(shape, shape), constants, chip=CHIP)
        tensor(loaded, "b4", shape)[...] = x
        loaded.run()
        np.testing.assert_array_equal(tensor(loaded, "b5", shape).reshape(-1), function((x[0] * 2 + 1 + 0.5) * 3))


def test_saturation_and_its_report() -> None:
    shape: Shape = (1, 2, 1, 1, 3)
    constants, coefficients = packed(np.float16([[1, 1]]), None, dense_channels(1, 2, 1))
    op = Convolution(source=access(4, shape), result=access(5, (1, 1, 1, 1, 3)), coefficients=coefficients)
    loaded = load_operations([op], buffers(shape, (1, 1, 1, 1, 3)), constants, chip=CHIP)
    tensor(loaded, "b4", shape)[0, :, 0, 0] = [[16368, 16384, np.nan], [16384, 16384, 0]]
    report = loaded.run()
    assert tensor(loaded, "b5", (1, 1, 1, 1, 3)).reshape(-1).tolist() == [32752, np.inf, np.inf]
    assert (report.overflows, report.nan_inputs, report.tasks[0].infinite_inputs) == (2, 1, 0)
    assert report.arithmetic == ("exact",)


def test_a_product_reads_its_coefficients_while_it_runs() -> None:
    rng = np.random.default_rng(3)
    source, result = (1, 8, 1, 1, 5), (1, 16, 1, 1, 5)
    w = small(rng, (16, 8))
    data, coefficients = packed(w, None, dense_channels(16, 8, 1), slot=6)
    runtime = coefficients_at(6, streams_of(coefficients), runtime=True)
    op = MatrixProduct(source=access(4, source), result=access(5, result), coefficients=runtime)
    every = [*buffers(source, result), Buffer("k", 6, Role.INPUT, len(data))]
    loaded = load_operations([op], every, chip=CHIP)
    x = small(rng, source)
    tensor(loaded, "b4", source)[...] = x
    for sign in (1, -1):
        loaded.run({"k": (np.frombuffer(data, np.float16) * np.float16(sign))})
        np.testing.assert_array_equal(tensor(loaded, "b5", result)[0, :, 0, 0],
                                      sign * (w.astype(np.float32) @ x[0, :, 0, 0].astype(np.float32)))


@pytest.mark.parametrize("width", [7, 20000])
def test_pass_through(width: int) -> None:
    shape: Shape = (1, 2, 1, 3, width)
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float16)
    x[0, 0, 0, 0, :3] = [np.nan, 60000, -0.0]
    clean = np.where(np.isnan(x), np.float16(np.inf), x)
    for post, clamp, expected in ((Post(), False, clean), (Post(), True, np.maximum(clean, 0)),
                                  (Post(scale=0.5, bias=1.0), False, (clean.astype(np.float32) + 1) * 0.5)):
        op = PassThrough(source=access(4, shape), result=access(5, shape), post=post, input_relu=clamp)
        loaded = load_operations([op], buffers(shape, shape), chip=CHIP)
        tensor(loaded, "b4", shape)[...] = x
        report = loaded.run()
        wanted = encode_away(expected).view(np.float16)
        np.testing.assert_array_equal(tensor(loaded, "b5", shape), wanted)
        assert (report.nan_inputs, report.overflows) == (1, 1)


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 4), st.integers(1, 5), st.integers(1, 2))
def test_channel_maximum(outputs: int, channels: int, groups: int) -> None:
    source, result = (groups, outputs * channels, 1, 3, 4), (groups, outputs, 1, 3, 4)
    op = ChannelMaximum(source=access(4, source), result=access(5, result), channels=channels)
    loaded = load_operations([op], buffers(source, result), chip=CHIP)
    x = np.random.default_rng(0).standard_normal(source).astype(np.float16)
    tensor(loaded, "b4", source)[...] = x
    loaded.run()
    np.testing.assert_array_equal(tensor(loaded, "b5", result),
                                  x.reshape(groups, outputs, channels, 1, 3, 4).max(axis=2))


@settings(max_examples=10, deadline=None)
@given(st.integers(1, 5), st.integers(1, 2))
def test_channel_product(outputs: int, groups: int) -> None:
    source, result = (groups, 2 * outputs, 1, 3, 4), (groups, outputs, 1, 3, 4)
    loaded = load_operations([ChannelProduct(source=access(4, source), result=access(5, result))],
                             buffers(source, result), chip=CHIP)
    x = np.random.default_rng(0).standard_normal(source).astype(np.float16)
    tensor(loaded, "b4", source)[...] = x
    loaded.run()
    product = x[:, ::2].astype(np.float32) * x[:, 1::2].astype(np.float32)
    np.testing.assert_allclose(tensor(loaded, "b5", result), product, rtol=2.0 ** -10, atol=1e-7)


def test_what_does_not_fit_is_refused() -> None:
    shape: Shape = (1, 4, 1, 2, 2)
    constants, coefficients = packed(np.ones((4, 4), np.float16), None, dense_channels(4, 4, 1))

    def refuse(match: str, **changes: object) -> None:
        settings_ = {"source": access(4, shape), "result": access(5, shape), "coefficients": coefficients, **changes}
        with pytest.raises(SimulationError, match=match):
            load_operations([Convolution(**settings_)], buffers(shape, shape), constants,
                            chip=CHIP)  # type: ignore[arg-type]

    refuse("do not fit the 256 bytes of its coefficient streams", kernel=(1, 9, 9))
    short = (*streams_of(coefficients)[:3], CoefficientStream(3, 192, 4))
    refuse("output channel 3 lies at 0xc6, beyond the end", coefficients=coefficients_at(1, short))
    refuse("core 3 computes output channels but has no coefficient stream",
           coefficients=coefficients_at(1, streams_of(coefficients)[:3]))
    refuse("lie at 0x4000 to 0x4040 of slot 1, which has 0x100 bytes",
           coefficients=coefficients_at(1, (CoefficientStream(0, 0x4000, 64),)))
    refuse("a table, but the operation has no coefficients", coefficients=None, post=Post(activation=Activation.TABLE))
    refuse("same number of groups", result=access(5, (2, 2, 1, 2, 2)))
    refuse("the source has 4", unicast=2)
    refuse("stride .* must be at least 1", stride=(1, 0, 1))
