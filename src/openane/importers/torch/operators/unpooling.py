"""PyTorch's max_unpool: maxima put back where max_pool found them."""

from __future__ import annotations

from collections.abc import Mapping

from openane.importers.torch.step import PLACES, Handler, Result, TorchStep
from openane.importers.unpooling import PooledPlaces, unpooled


def _unpool(step: TorchStep) -> Result:
    places = step.argument("indices")
    return step.reshaped(unpooled(step, step.value("self"), places, step.integers("output_size")), step.shape)


def _kept(step: TorchStep) -> Result:
    """Positions in another shape, which has the same order."""
    return next(each for each in step.arguments.values() if isinstance(each, PooledPlaces))


OPERATORS: Mapping[str, Handler] = {
    **dict.fromkeys((PLACES + "max_unpool2d", PLACES + "max_unpool3d"), _unpool),
    **dict.fromkeys((PLACES + name for name in ("clone", "squeeze", "unsqueeze", "view")), _kept),
}
