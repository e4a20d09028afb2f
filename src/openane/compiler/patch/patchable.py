"""What a compiled model keeps for new weights: where its constants lie, and what was last made of that."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from openane.chips import Limits
from openane.compiler.weights.layout_records import Routes

if TYPE_CHECKING:
    from openane.compiler.patch.writer import ConstantWriter

FILE = "routes.json"
"""The file of a bundle that says where constants lie."""


class Patchable:
    """The routes of a model, read when they are first asked for, and what was last made of them; `base` is for
    the one who patches to remember the model's graph by."""

    def __init__(self, routes: Routes | Callable[[], Routes], limits: Limits) -> None:
        self.base: object = None
        self._limits = limits
        self._routes = routes
        self._kept: tuple[frozenset[str], ConstantWriter] | None = None

    @property
    def routes(self) -> Routes:
        """The routes. FormatError when they come from a file that is malformed."""
        if not isinstance(self._routes, Routes):
            self._routes = self._routes()
        return self._routes

    def rewriter(self, names: frozenset[str]) -> ConstantWriter:
        """What writes new numbers for the constants called so, of which `routes` knows all routes."""
        from openane.compiler.patch.writer import ConstantWriter

        kept = self._kept
        if kept is None or kept[0] != names:
            kept = self._kept = names, ConstantWriter(self.routes, names, self._limits)
        return kept[1]
