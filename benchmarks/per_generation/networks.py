"""The networks of benchmarks/models.py, imported from ONNX, with one input each, beside onnxruntime."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import models

from openane.devices.protocol import Device
from openane.importers import load_graph
from per_generation.case import Arrays, Case, compiled_outputs


def cases() -> dict[str, Callable[[], Case]]:
    """What makes each case, by name."""
    return {name: partial(_case, name) for name in models.NETWORKS}


def _case(name: str) -> Case:
    network = models.NETWORKS[name]()
    feeds = network.feeds[0]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.onnx"
        path.write_bytes(network.model.SerializeToString())
        network.model.Clear()
        session = models.new_session(str(path))
        found = session.run(None, feeds)
        expected = dict(zip([port.name for port in session.get_outputs()], found, strict=True))
        del session  # its weights go before ours come
        graph = load_graph(path)
        names = dict(zip([value.name for value in graph.outputs], expected, strict=True))

    def outputs(target: str, device: Device) -> Arrays:
        return {names[name]: array for name, array in compiled_outputs(graph, feeds, target, device).items()}

    return Case(outputs, lambda: expected)
