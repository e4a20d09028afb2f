"""Names of a package that are imported when somebody asks for them (PEP 562): importing the package is quick then."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec

from openane.errors import UnsupportedError
from openane.version import pip_line


def requested(package: str, homes: Mapping[str, str], library: str = "") -> Callable[[str], object]:
    """The `__getattr__` of a package: `homes` says in which module each name is. The `library`, if there is one, has an
    extra of its name; asking for anything without it is an UnsupportedError with the pip line."""
    def attribute(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if library and find_spec(library) is None:
            raise UnsupportedError(package, f"needs the {library} package", remedy=pip_line(library))
        value = getattr(import_module(homes[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return attribute
