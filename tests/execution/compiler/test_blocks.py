"""Whole blocks of well-known networks: one engine program each, nothing on the host, results within a stated bound."""

import pytest
from support.blocks import Transformer, bottleneck, masks, residual


@pytest.mark.parametrize(("batch", "length", "width", "mask", "spelled"), [
    (1, 32, 128, "causal", False), (2, 32, 128, "bool", False), (1, 64, 256, "added", True),
])
def test_transformer_block(hold, batch, length, width, mask, spelled):
    graph = Transformer(batch, length, width, 4).graph(mask, spelled)
    model = hold(graph, masks(mask, length), absolute=3e-2, relative=1e-2)
    assert len(model.programs) == 1
    assert model.one_program


@pytest.mark.parametrize(("batch", "stride", "channels"), [(1, 1, 32), (1, 2, 64), (2, 2, 64)])
def test_residual_block(hold, batch, stride, channels):
    model = hold(residual(batch, stride, channels), absolute=2e-2, relative=1e-2)
    assert model.one_program
    assert len(model.program.tasks) <= 4


def test_bottleneck_block(hold):
    model = hold(bottleneck(), absolute=2e-2, relative=1e-2)
    assert model.one_program
