"""Models in a row on one device: what is shared, what is repacked, and streams that give what single runs give."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress

import numpy as np
import pytest

import openane as ane
from openane.devices.protocol import LoadedModel
from openane.graph.mil import parse_mil

TEXT = """program(1.3)
{{
    func main<ios18>({inputs}) {{
        {body}
    }} -> ({output});
}}
"""


def model(inputs: str, body: str, output: str) -> ane.Model:
    return ane.compile(parse_mil(TEXT.format(inputs=inputs, body=body, output=output)))


@pytest.fixture(scope="module")
def double() -> ane.Model:
    return model("tensor<fp16, [1, 4, 6, 40]> x",
                 'tensor<fp16, [1, 4, 6, 40]> y = add(x = x, y = x)[name = string("y")];', "y")


@pytest.fixture(scope="module")
def rectify() -> ane.Model:
    return model("tensor<fp16, [1, 4, 6, 40]> y, tensor<fp16, [1, 4, 6, 40]> bias",
                 'tensor<fp16, [1, 4, 6, 40]> s = add(x = y, y = bias)[name = string("s")];\n'
                 'tensor<fp16, [1, 4, 6, 40]> z = relu(x = s)[name = string("z")];', "z")


@pytest.fixture(scope="module")
def wide() -> ane.Model:
    """Reads the same elements as fp32: the host converts in between."""
    return model("tensor<fp32, [1, 4, 6, 40]> z",
                 'tensor<fp16, [1, 4, 6, 40]> h = cast(x = z, dtype = string("fp16"))[name = string("h")];\n'
                 'tensor<fp16, [1, 4, 6, 40]> w = mul(x = h, y = h)[name = string("w")];', "w")


def drawn(seed: int) -> dict[str, np.ndarray]:
    draw = np.random.default_rng(seed)
    return {"x": draw.standard_normal((1, 4, 6, 40)).astype(np.float16),
            "bias": draw.standard_normal((1, 4, 6, 40)).astype(np.float16)}


def one_by_one(models: list[ane.Model], inputs: dict[str, np.ndarray]) -> np.ndarray:
    known = dict(inputs)
    for each in models:
        known |= ane.run(each, {port.name: known[port.name] for port in each.inputs})
    return known[models[-1].outputs[0].name]


def test_a_stream_gives_what_single_runs_give(double: ane.Model, rectify: ane.Model) -> None:
    runs = [drawn(seed) for seed in range(7)]
    with ane.open_device("simulator") as device, device.pipeline([double, rectify]) as pipeline:
        assert [(link.source, link.output, link.target, link.shared) for link in pipeline.links] == [(0, "y", 1, True)]
        assert list(pipeline.inputs) == ["x", "bias"]
        assert list(pipeline.outputs) == ["z"]
        found = [each["z"] for each in pipeline.stream(runs)]
        assert [task.index for task in pipeline.report.tasks] == list(range(len(pipeline.report.tasks)))
    for inputs, each in zip(runs, found, strict=True):
        np.testing.assert_array_equal(each, one_by_one([double, rectify], inputs))


def test_what_lies_differently_is_repacked(double: ane.Model, rectify: ane.Model, wide: ane.Model) -> None:
    with ane.open_device("simulator") as device, device.pipeline([double, rectify, wide], depth=1) as pipeline:
        np.testing.assert_array_equal(pipeline.run(drawn(3))["w"], one_by_one([double, rectify, wide], drawn(3)))
        single = model("tensor<fp16, [1, 4, 6, 40]> any",
                       'tensor<fp16, [1, 4, 6, 40]> out = relu(x = any)[name = string("out")];', "out")
        with device.pipeline([double, single]) as named_otherwise:
            assert [(link.output, link.input) for link in named_otherwise.links] == [("y", "any")]


def test_endless_streams_are_bounded(double: ane.Model, rectify: ane.Model) -> None:
    taken = itertools.count()

    def endless() -> Iterator[dict[str, np.ndarray]]:
        while True:
            next(taken)
            yield drawn(0)

    with ane.open_device("simulator") as device, device.pipeline([double, rectify], depth=3) as pipeline:
        stream = pipeline.stream(endless())
        first = [next(stream)["z"] for _ in range(3)]
        stream.close()  # type: ignore[attr-defined]
        assert next(taken) <= 3 + 4
        np.testing.assert_array_equal(first[0], first[2])
        np.testing.assert_array_equal(pipeline.run(drawn(0))["z"], first[0])


def test_a_wrong_run_is_refused_and_the_next_one_passes(double: ane.Model, rectify: ane.Model) -> None:
    with ane.open_device("simulator") as device, device.pipeline([double, rectify]) as pipeline:
        with pytest.raises(ane.DeviceError, match="the inputs of the pipeline are x, bias; missing 'bias'"):
            pipeline.run({"x": drawn(0)["x"]})
        with pytest.raises(ane.DeviceError, match="must have shape"):
            pipeline.run(drawn(0) | {"x": np.zeros((2, 2), np.float16)})
        np.testing.assert_array_equal(pipeline.run(drawn(1))["z"], one_by_one([double, rectify], drawn(1)))
    with pytest.raises(ane.DeviceError, match="the pipeline is closed"):
        pipeline.run(drawn(0))


def test_stages_that_do_not_fit_are_refused(double: ane.Model) -> None:
    narrow = model("tensor<fp16, [1, 4, 6, 39]> y",
                   'tensor<fp16, [1, 4, 6, 39]> z = relu(x = y)[name = string("z")];', "z")
    with ane.open_device("simulator") as device:
        with pytest.raises(ane.DeviceError, match=r"has shape \[1, 4, 6, 40\]; input 'y' of stage 1"):
            device.pipeline([double, narrow])
        with pytest.raises(ane.DeviceError, match="at least one model"):
            device.pipeline([])
        with pytest.raises(ane.DeviceError, match="1 to 64"):
            device.pipeline([double], depth=0)


def test_a_pipeline_that_is_closed_in_the_middle_of_a_stream(double: ane.Model) -> None:
    with ane.open_device() as device:
        pipeline = device.pipeline([double])
        stream = pipeline.stream({"x": np.full((1, 4, 6, 40), k, np.float16)} for k in itertools.count())
        assert next(stream)["y"].max() == 0
        pipeline.close()
        pipeline.close()
        with pytest.raises(ane.DeviceError, match="the pipeline is closed"):
            list(stream)


def test_what_is_submitted_while_it_closes_runs_or_is_refused(double: ane.Model) -> None:
    given = {"x": np.ones((1, 4, 6, 40), np.float16)}

    def submit(executable: LoadedModel) -> list[Future[dict[str, np.ndarray]]]:
        found = []
        for _ in range(8):
            with suppress(ane.DeviceError):
                found.append(executable.submit(given))
        return found

    with ane.open_device() as device, ThreadPoolExecutor(3) as threads:
        for _ in range(20):
            executable = device.load(double)
            submitting = [threads.submit(submit, executable) for _ in range(3)]
            executable.close()
            for future in (each for done in submitting for each in done.result()):
                assert (future.result()["y"] == 2).all()
