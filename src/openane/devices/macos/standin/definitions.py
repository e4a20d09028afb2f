"""How the stand-in's classes are written down, and the objects made of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any

from openane.record_classes import dataclass


class ObjectiveCException(Exception):
    """An NSException: nothing between here and Python can catch it, so it ends the process."""

    def __init__(self, name: str, reason: str) -> None:
        self.name, self.reason = name, reason
        super().__init__(f"{name}: {reason}")


@dataclass(frozen=True, slots=True)
class Method:
    """Types as the runtime encodes them, without offsets; and what is called with (runtime, receiver, arguments...).

    Objects arrive as `Instance` or None, classes as `Class`, C strings as bytes, everything else as a number. Objects
    that are given back and are not the receiver's are autoreleased by the method itself.
    """

    types: str
    call: Callable[..., Any]


@dataclass(frozen=True, slots=True)
class ClassDefinition:
    """A class: where it comes from, what it inherits, `+` and `-` methods. `value` makes what `alloc` starts with."""

    name: str
    library: str
    parent: str = "NSObject"
    factory: Mapping[str, Method] = field(default_factory=dict)
    methods: Mapping[str, Method] = field(default_factory=dict)
    value: Callable[[], Any] | None = None


class Class:
    """A registered class. `factory` and `methods` are its own, without what it inherits."""

    __slots__ = ("definition", "factory", "handle", "meta", "methods", "name", "parent")

    def __init__(self, definition: ClassDefinition, parent: Class | None, handle: int, meta: int) -> None:
        self.definition, self.parent, self.handle, self.meta = definition, parent, handle, meta
        self.name = definition.name
        self.factory, self.methods = dict(definition.factory), dict(definition.methods)

    def find(self, selector: str, factory: bool) -> Method | None:
        """The method a class (`factory`) or its instances answer a selector with."""
        known: Class | None = self
        while known is not None:
            method = (known.factory if factory else known.methods).get(selector)
            if method is not None:
                return method
            last, known = known, known.parent
        return last.methods.get(selector) if factory else None  # the root's instance methods serve classes too

    def inherits(self, name: str) -> bool:
        """Whether the class is `name` or comes from it."""
        known: Class | None = self
        while known is not None and known.name != name:
            known = known.parent
        return known is not None


class Instance:
    """An object. `owned` are the objects it retains, `memory` the C memory that lives as long as it does."""

    __slots__ = ("handle", "kind", "memory", "owned", "retains", "value")

    def __init__(self, kind: Class, handle: int, value: Any = None) -> None:
        self.kind, self.handle, self.value = kind, handle, value
        self.retains = 1
        self.owned: list[Instance] = []
        self.memory: Any = None

    def __repr__(self) -> str:
        return f"<{self.kind.name} {self.handle:#x}>"

    def isa(self, name: str) -> bool:
        """Whether it is of class `name` or one that inherits from it."""
        return self.kind.inherits(name)
