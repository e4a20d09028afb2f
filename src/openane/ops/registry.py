"""Operations by name, each imported with the module that describes it when somebody asks for it: a graph has a few of a
hundred and sixty."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any

from openane.errors import GraphError
from openane.ops.spec import Op


class Registry(Mapping[str, Op]):
    """The operations that modules of a package describe, in alphabetical order."""

    def __init__(self, package: str, stated: Mapping[str, tuple[str, ...]], modules: Iterable[str]) -> None:
        """`stated` are the names of the operations in a module; what it says nothing of is imported at once."""
        self._package, self._modules = package, tuple(modules)
        self._known: dict[str, Op] = {}
        homes = {name: module for module in self._modules for name in stated.get(module, ())}
        self._homes = dict(homes)
        self.unstated = self._imported(module for module in self._modules if module not in stated)
        """The operations of modules that nothing was said of."""
        for name in homes.keys() & self.unstated.keys():
            raise GraphError(f"{name}: described twice")

    def __getitem__(self, name: str) -> Op:
        found = self._known.get(name)
        if found is None:
            if name not in self._homes:
                raise KeyError(name)
            self._imported([self._homes[name]])
            found = self._known[name]
        return found

    def get(self, name: str, default: Any = None) -> Op | None:  # type: ignore[override]
        """The operation called so, or the default."""
        found = self._known.get(name)
        if found is not None:
            return found
        return self[name] if name in self._homes else default

    def __contains__(self, name: object) -> bool:
        return name in self._homes

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._homes))

    def __len__(self) -> int:
        return len(self._homes)

    def complete(self) -> None:
        """Imports what is not, and then knows the operations too that modules have beside the stated ones."""
        self._imported(self._modules)

    def _imported(self, modules: Iterable[str]) -> Mapping[str, Op]:
        """The operations of modules, which are known from then on."""
        found = [op for module in modules for op in getattr(import_module(f"{self._package}.{module}"), "OPS", ())]
        table = register(found)
        self._homes |= dict.fromkeys(table.keys() - self._homes.keys(), "")
        self._known |= table
        return table


def register(ops: Iterable[Op]) -> Mapping[str, Op]:
    """A table by name, in alphabetical order. GraphError when two operations share one, or an operation repeats a
    parameter."""
    table: dict[str, Op] = {}
    for op in sorted(ops, key=lambda op: op.name):
        if op.name in table:
            raise GraphError(f"{op.name}: described twice")
        names = [parameter.name for parameter in op.parameters]
        if len(set(names)) != len(names):
            raise GraphError(f"{op.name}: a parameter is listed twice ({', '.join(names)})")
        table[op.name] = op
    return MappingProxyType(table)
