"""Models of the transformers library as torch.export hands them over: on the engine but for lookups, with its numbers.

One for each kind of operation that used to stop a family; `benchmarks/zoo.py` tries them all.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import openane as ane

pytestmark = [pytest.mark.needs("torch", "transformers"), pytest.mark.filterwarnings("ignore")]
MODELS = {
    "bert_padded": "masks indexed by broadcast positions, eager attention",
    "gemma2": "masks of the lowest number of fp32", "mixtral": "experts chosen when the model runs",
    "phi3": "slices of no elements", "rwkv": "negative padding", "fnet": "Fourier transforms",
    "canine": "integers the host computes and the engine must not see",
}


@pytest.mark.parametrize("name", MODELS)
def test_as_transformers_computes(name: str, libraries: Any) -> None:
    import torch

    described = next(each for each in libraries.described() if each.key == f"transformers/{name}")
    built = libraries.build(described)
    with torch.no_grad():
        wanted = torch.utils._pytree.tree_leaves(dict(built.module(**built.keywords)))
        program = torch.export.export(built.module, (), built.keywords, strict=False)
    model = ane.compile(ane.load_graph(program))
    feeds = {port.name: built.keywords[port.name].numpy() for port in model.inputs}
    for found, expected in zip(ane.run(model, feeds).values(), wanted, strict=True):
        assert np.abs(found - expected.numpy()).max() <= 0.05 * expected.abs().max(), name
    assert {entry.operation.split()[0] for entry in model.host_operations} <= \
        {"gather", "add", "mul", "mod", "sub", "cast", "floor_div"}
