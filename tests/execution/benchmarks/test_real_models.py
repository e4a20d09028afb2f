"""The networks of benchmarks/models.py: built from a seed, worth comparing, and the same on the engine. The smallest
ones; the benchmark runs them all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support.benchmark_modules import benchmark_modules

import openane as ane
from openane.ops.build import GraphBuilder


@pytest.fixture(scope="module")
def bench() -> Iterator[SimpleNamespace]:
    """The benchmark and the networks it builds."""
    names = "models", "networks.topologies", "networks.transformers"
    with benchmark_modules(*names) as (models, topologies, transformers):
        yield SimpleNamespace(models=models, topologies=topologies, transformers=transformers)


@pytest.fixture
def same(bench: SimpleNamespace, tmp_path: Path) -> Callable[[Any], ane.Model]:
    """same(network): checks a network, compiles it strict and holds it to onnxruntime."""
    def hold(network: Any) -> ane.Model:
        bench.models.check(network)
        path = tmp_path / "network.onnx"
        path.write_bytes(network.model.SerializeToString())
        model = ane.compile(ane.load_graph(path))
        assert not model.host_operations
        session = bench.models.new_session(str(path))
        pairs = []
        with ane.open_device("simulator?arithmetic=fast") as device, device.load(model) as executable:
            for feeds in network.feeds:
                found, = executable.run(feeds).values()
                pairs.append(tuple(each.ravel().astype(np.float64) for each in (session.run(None, feeds)[0], found)))
        assert min(bench.models.cosine(*pair) for pair in pairs) >= bench.models.LEAST_COSINE
        if network.classes:
            assert bench.models.ranking(pairs) != "different"
        return model
    return hold


def test_a_classifier(bench: SimpleNamespace, same: Callable[[Any], ane.Model]) -> None:
    model = same(bench.models.classifier("squeezenet"))
    assert model.one_program


def test_an_encoder(bench: SimpleNamespace, same: Callable[[Any], ane.Model]) -> None:
    rng, width = np.random.default_rng(0), bench.transformers.MINILM_L6.width
    mask = np.where(np.arange(16) < 12, 0, -10000).astype(np.float32).reshape(1, 1, 1, 16)
    feeds = tuple({"embeddings": rng.standard_normal((1, 16, width)).astype(np.float32), "mask": mask}
                  for _ in range(2))
    same(bench.models.Network(bench.transformers.minilm(16), feeds, False))


def test_weights_follow_from_the_seed(bench: SimpleNamespace) -> None:
    first, again, other = (bench.topologies.topology("squeezenet", seed).SerializeToString() for seed in (0, 0, 1))
    assert first == again
    assert first != other


def test_a_network_without_differences_is_noticed(bench: SimpleNamespace) -> None:
    """The constant weights of the topologies' own files are what this is about."""
    network = bench.models.classifier("squeezenet")
    for weights in network.model.graph.initializer:
        if weights.data_type == 1:
            weights.raw_data = bytes(len(weights.raw_data))
    with pytest.raises(AssertionError, match="differ by"):
        bench.models.check(network)


def test_rows_wider_than_l2() -> None:
    """One row of all channels is 2.3 MB, as behind the first convolution of the speech encoder."""
    builder = GraphBuilder()
    x = builder.input("x", "fp16", (1, 384, 1, 3000))
    model = ane.compile(builder.finish({"y": builder.single("relu", x=x)}))
    feeds = {"x": np.random.default_rng(0).standard_normal(x.shape).astype(np.float16)}
    assert np.array_equal(ane.run(model, feeds)["y"], np.maximum(feeds["x"], 0))
