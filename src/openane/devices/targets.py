"""Which of the generations a model was compiled for a device takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from openane.devices.protocol import LoadableModel
from openane.errors import DeviceError


@runtime_checkable
class TargetedModel(LoadableModel, Protocol):
    """A model that may be compiled for several generations."""

    @property
    def targets(self) -> Mapping[str, LoadableModel]:
        """The model by generation, its own first."""
        ...


def own_model(model: LoadableModel, chip: str | None, device: str) -> LoadableModel:
    """The model as it was compiled for `chip`, which is what `device` is; None takes its first generation. DeviceError
    says for what else it was compiled, and what to do."""
    if chip is None or not isinstance(model, TargetedModel):
        return model
    known = model.targets
    if chip in known:
        return known[chip]
    if not any(function.programs for function in model.functions.values()):
        return model  # the host computes all of it
    raise DeviceError(f"{device} is {chip}, model {model.name!r} was compiled for {', '.join(known)}\nhint: compile it "
                      f"for {chip} as well: ane compile MODEL --target {','.join([*known, chip])} -o NAME.ane, or "
                      "openane.compile_for")


def alike(model: LoadableModel, loaded: LoadableModel) -> LoadableModel:
    """The model for the generation that `loaded` was compiled for, where it is for several."""
    if not isinstance(model, TargetedModel) or not isinstance(loaded, TargetedModel):
        return model
    return model.targets.get(next(iter(loaded.targets)), model)
