"""`dataclass` as of the standard library, for classes that are defined in a tenth of the time and, where nothing in
them may change, records that are made in half.

The library writes and compiles six functions of every class when it is defined. A command defines two hundred classes,
which was a third of its start, and uses few of their functions. Here a function is written when it is first called, and
`__init__` fills the slots of a record directly, where the library's calls `object.__setattr__` with every name.
Everything else is the library's: what it says of a class (`fields`, `replace`, `is_dataclass`) it says of these.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from types import MemberDescriptorType
from typing import TYPE_CHECKING, Any

__all__ = ["dataclass"]

Fields = tuple[dataclasses.Field[Any], ...]
Written = Callable[[], tuple[str, dict[str, object]]]
"""The text of a function, and the names that it uses."""
MADE = ...
"""Stands for a default that is made anew for every record."""


def _dataclass(kind: Any = None, /, *, frozen: bool = False, slots: bool = False, eq: bool = True, repr: bool = True,
               kw_only: bool = False) -> Any:
    """As `dataclasses.dataclass` with those arguments, for fields that are no `InitVar`."""
    def made(kind: Any) -> Any:
        return _made(kind, frozen, slots, eq, repr, kw_only)

    return made if kind is None else made(kind)


def _made(kind: Any, frozen: bool, slots: bool, eq: bool, printed: bool, kw_only: bool) -> Any:
    own, derived = dict(vars(kind)), any(map(dataclasses.is_dataclass, kind.__mro__[1:]))
    made = dataclasses.dataclass(init=False, repr=False, eq=False, frozen=frozen and derived, slots=slots,
                                 kw_only=kw_only)(kind)
    made.__dataclass_params__.frozen = frozen
    fields = dataclasses.fields(made)
    members: dict[str, object] = {"__init__": _later(made, "__init__", lambda: _init(made, fields))}
    members |= {"__repr__": _printed} if printed else {}
    members |= _comparing(made, fields, own, frozen) if eq else {}
    if frozen and not derived:
        members |= {"__setattr__": _refusing(made, "assign to", "__setattr__"),
                    "__delattr__": _refusing(made, "delete", "__delattr__")}
    members |= {"__getstate__": _state, "__setstate__": _filled} if frozen and slots else {}
    for name, member in members.items():
        if own.get(name) is None:
            setattr(made, name, member)
    if own.get("__init__") is None:
        made.__signature__ = _Signature(made)
    return made


class _Signature:
    """What `inspect.signature`, and so an editor, says of a class: made when somebody asks."""

    def __init__(self, kind: Any) -> None:
        self._kind = kind

    def __get__(self, record: object, kind: Any) -> Any:
        if record is not None or kind is not self._kind:
            raise AttributeError("__signature__")
        from inspect import Parameter, Signature

        found = []
        for field in sorted(dataclasses.fields(kind), key=lambda field: field.kw_only is True):
            made, default = field.default_factory is not dataclasses.MISSING, field.default
            shown = MADE if made else Parameter.empty if default is dataclasses.MISSING else default
            if field.init:
                found.append(Parameter(field.name, Parameter.KEYWORD_ONLY if field.kw_only else
                                       Parameter.POSITIONAL_OR_KEYWORD, default=shown, annotation=field.type))
        return Signature(found, return_annotation=None)


def _comparing(kind: Any, fields: Fields, own: dict[str, object], frozen: bool) -> dict[str, object]:
    """What compares and hashes the records of a class, as far as the class itself does not say."""
    compared = [field.name for field in fields if field.compare]
    hashed = [field.name for field in fields if (field.compare if field.hash is None else field.hash)]
    equal = f"""def __eq__(self, other):
    if other.__class__ is self.__class__:
        return {_tuple('self', compared)} == {_tuple('other', compared)}
    return NotImplemented"""
    hashing = f"def __hash__(self):\n    return hash({_tuple('self', hashed)})"
    return {"__eq__": _later(kind, "__eq__", lambda: (equal, {})),
            "__hash__": _later(kind, "__hash__", lambda: (hashing, {})) if frozen else None}


def _tuple(record: str, names: Iterable[str]) -> str:
    return f"({''.join(f'{record}.{name}, ' for name in names)})"


def _later(kind: Any, name: str, written: Written) -> Callable[..., Any]:
    """A function of a class that puts the written one in its place when it is first called, and calls it."""
    def first(*arguments: Any, **named: Any) -> Any:
        text, known = written()
        found: dict[str, Any] = {}
        exec(text, known, found)
        made = found[name]
        made.__qualname__ = f"{kind.__qualname__}.{name}"
        setattr(kind, name, made)
        return made(*arguments, **named)

    return first


def _printed(self: Any) -> str:
    shown = (f"{field.name}={getattr(self, field.name)!r}" for field in dataclasses.fields(self) if field.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _refusing(kind: Any, change: str, inherited: str) -> Callable[..., None]:
    """`__setattr__` and `__delattr__`: fields stay as they are; a class that is derived may have others beside them."""
    def refuse(self: object, name: str, *value: object) -> None:
        if type(self) is kind or name in kind.__dataclass_fields__:
            raise dataclasses.FrozenInstanceError(f"cannot {change} field {name!r}")
        getattr(super(kind, self), inherited)(name, *value)

    return refuse


def _state(self: Any) -> list[object]:
    """What pickle and copy keep of a record."""
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _filled(self: Any, state: list[object]) -> None:
    """What they fill one by."""
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)


def _init(kind: Any, fields: Fields) -> tuple[str, dict[str, object]]:
    known: dict[str, object] = {"MISSING": dataclasses.MISSING}
    for field in fields:
        known |= {f"make_{field.name}": field.default_factory, f"default_{field.name}": field.default,
                  f"set_{field.name}": getattr(_written_in(kind, field.name), "__set__", None)}
    given = [field for field in fields if field.init]
    named = [_argument(field) for field in given if field.kw_only]
    arguments = ["self", *(_argument(field) for field in given if not field.kw_only), *(["*"] if named else []), *named]
    steps = [_step(kind, field) for field in fields]
    steps += ["self.__post_init__()"] if hasattr(kind, "__post_init__") else []
    return "\n    ".join([f"def __init__({', '.join(arguments)}):", *steps, "pass"]), known


def _argument(field: dataclasses.Field[Any]) -> str:
    if field.default_factory is not dataclasses.MISSING:
        return f"{field.name}=MISSING"
    return field.name if field.default is dataclasses.MISSING else f"{field.name}=default_{field.name}"


def _step(kind: Any, field: dataclasses.Field[Any]) -> str:
    """The line of `__init__` that fills a field."""
    name, made = field.name, field.default_factory is not dataclasses.MISSING
    if field.init:
        value = f"make_{name}() if {name} is MISSING else {name}" if made else name
    elif made or field.default is not dataclasses.MISSING:
        value = f"make_{name}()" if made else f"default_{name}"
    else:
        return "pass"
    slot = isinstance(_written_in(kind, name), MemberDescriptorType)
    return f"set_{name}(self, {value})" if slot else f"self.__dict__[{name!r}] = {value}"


def _written_in(kind: Any, name: str) -> object:
    """What a class, or one it is derived of, has under a name, as it stands there."""
    return next((vars(each)[name] for each in kind.__mro__ if name in vars(each)), None)


if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    dataclass = _dataclass
