"""Handlers of operators, found by listing the modules of a package: adding an operator is adding a module, or a line to
one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from pkgutil import iter_modules
from types import MappingProxyType
from typing import Any

from openane.errors import GraphError


def handlers(package: str, folders: Sequence[str], table: str) -> Mapping[str, Any]:
    """What the modules of `package`, which lies in `folders`, export as `table`, as one table by name. GraphError when
    two modules have an entry for one name."""
    found: dict[str, Any] = {}
    for module in sorted(info.name for info in iter_modules(folders)):
        entries: Mapping[str, Any] = getattr(import_module(f"{package}.{module}"), table, {})
        for name, handler in entries.items():
            if name in found:
                raise GraphError(f"{name}: {package}.{module} handles what another module of {package} handles")
            found[name] = handler
    return MappingProxyType(found)
