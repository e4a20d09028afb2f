"""A compiled model as users hold it: saved, loaded and patched. What does these is imported when it is asked for: who
compiles and runs a model needs none of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from openane.compiler.model import CompiledModel

if TYPE_CHECKING:
    from openane.compiler.patch_model import PatchedModel


class Model(CompiledModel):
    """A compiled model; its fields are those of the record."""

    @staticmethod
    def of(record: CompiledModel) -> Model:
        """The model, with its other functions and targets, of a record."""
        parts = {field.name: getattr(record, field.name) for field in fields(record)}
        return Model(**parts | {name: tuple(map(Model.of, parts[name])) for name in ("others", "other_targets")})

    def save(self, path: str | Path, *, layout: str = "macos26", header: int = 0x1000) -> None:
        """Writes a bundle (`NAME.ane`), or `.hwx` / `.anec` for a model that is one engine program.

        `layout` is the form of a `.hwx`: `macos26`, or `compat` for the Linux tools. `header` is the size of an
        `.anec`'s header, 0x1000 or 0x800. GraphError, ProgramError when the model has no such form.
        """
        from openane.compiler.artifact.bundle import save_model

        save_model(self, Path(path), layout, header)

    def patch(self, arrays: Mapping[str, np.ndarray]) -> PatchedModel[Model]:
        """The model with the constants `arrays` names replaced, and the bytes that changed; see patch_model.patch. A
        model from a file or the cache is patched as one just compiled is, one for several targets for all of them."""
        from openane.compiler.patch_model import patch

        found = patch(self, arrays)
        others = tuple(patch(other, arrays).model for other in self.other_targets)
        return replace(found, model=replace(found.model, other_targets=others)) if others else found

    @staticmethod
    def load(path: str | Path) -> Model:
        """Reads a bundle back. FormatError when it is not one."""
        from openane.compiler.artifact.bundle import load_model

        return Model.of(load_model(Path(path)))
