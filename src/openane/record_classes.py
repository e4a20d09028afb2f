"""`dataclass` as of the standard library, for classes that are defined in a tenth of the time and, where nothing in
them may change, records that are made in half.

The library writes and compiles six functions of every class when it is defined. A command defines two hundred classes,
which was a third of its start, and uses few of their functions. Here a function is made when it is first called, of
code that classes with as many fields share, compiled once with placeholders for their names; and `__init__` fills the
slots of a record directly, where the library's calls `object.__setattr__` with every name.
Everything else is the library's: what it says of a class (`fields`, `replace`, `is_dataclass`) it says of these.
"""

from __future__ import annotations

import dataclasses
import gc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from itertools import pairwise
from types import CodeType, FunctionType, MemberDescriptorType
from typing import TYPE_CHECKING, Any

__all__ = ["dataclass", "many_records"]

Fields = tuple[dataclasses.Field[Any], ...]
Function = Callable[..., Any]
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
    members: dict[str, object] = {"__init__": _later(made, "__init__", partial(_init, made, fields))}
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
    def equal() -> Function:
        names = [field.name for field in fields if field.compare]
        return _function("__eq__", f"""(self, other):
    if other.__class__ is self.__class__:
        return {_tuple('self', len(names))} == {_tuple('other', len(names))}
    return NotImplemented""", names)

    def hashing() -> Function:
        names = [field.name for field in fields if (field.compare if field.hash is None else field.hash)]
        return _function("__hash__", f"(self):\n    return hash({_tuple('self', len(names))})", names)

    return {"__eq__": _later(kind, "__eq__", equal), "__hash__": _later(kind, "__hash__", hashing) if frozen else None}


def _tuple(record: str, count: int) -> str:
    return f"({''.join(f'{record}.f{i}, ' for i in range(count))})"


def _later(kind: Any, name: str, make: Callable[[], Function]) -> Function:
    """A function of a class that puts the one that is made in its place when it is first called, and calls it."""
    def first(*arguments: Any, **named: Any) -> Any:
        made = make()
        made.__qualname__ = f"{kind.__qualname__}.{name}"
        setattr(kind, name, made)
        return made(*arguments, **named)

    return first


def _function(name: str, text: str, fields: Sequence[str], known: Mapping[str, object] = {},
              by_name: int = 0) -> FunctionType:
    """The function of a text, which begins with its arguments and calls field number i `fi`. It knows the names of
    `known`. So many of its arguments, the last ones, are given by name."""
    code, called = _code(text), {f"f{i}": field for i, field in enumerate(fields)}
    return FunctionType(code.replace(co_varnames=tuple([called.get(each, each) for each in code.co_varnames]),
                                     co_names=tuple([called.get(each, each) for each in code.co_names]),
                                     co_argcount=code.co_argcount - by_name, co_kwonlyargcount=by_name,
                                     co_name=name), dict(known), name)


@cache
def _code(text: str) -> CodeType:
    """What a text is compiled to. Remembered: most classes have functions like those of others, but for names."""
    whole = compile(f"def made{text}", "<string>", "exec", dont_inherit=True)
    return next(each for each in whole.co_consts if isinstance(each, CodeType))


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


def _init(kind: Any, fields: Fields) -> FunctionType:
    placed = [i for i, field in enumerate(fields) if field.init and not field.kw_only]
    named = [i for i, field in enumerate(fields) if field.init and field.kw_only]
    arguments = ", ".join(["self", *(f"f{i}" for i in (*placed, *named))])
    text = "\n    ".join([f"({arguments}):", *_steps(kind, fields), "pass"])
    made = _function("__init__", text, [field.name for field in fields], _used(kind, fields), len(named))
    made.__defaults__ = tuple(_defaults(fields[i] for i in placed).values())
    made.__kwdefaults__ = _defaults(fields[i] for i in named)
    _check_order(kind, [fields[i] for i in placed])
    return made


def _steps(kind: Any, fields: Fields) -> list[str]:
    steps = [_step(kind, i, field) for i, field in enumerate(fields)]
    return [*steps, "self.__post_init__()"] if hasattr(kind, "__post_init__") else steps


def _used(kind: Any, fields: Fields) -> dict[str, object]:
    """What the lines of `__init__` name."""
    known: dict[str, object] = {"MISSING": dataclasses.MISSING}
    for i, field in enumerate(fields):
        known |= {f"make{i}": field.default_factory, f"default{i}": field.default, f"name{i}": field.name,
                  f"set{i}": getattr(getattr(kind, field.name, None), "__set__", None)}
    return known


def _defaults(fields: Iterable[dataclasses.Field[Any]]) -> dict[str, Any]:
    """What stands for arguments that are left out, by name."""
    return {field.name: dataclasses.MISSING if field.default is dataclasses.MISSING else field.default
            for field in fields if _has_default(field)}


def _has_default(field: dataclasses.Field[Any]) -> bool:
    return field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING


def _check_order(kind: Any, fields: Sequence[dataclasses.Field[Any]]) -> None:
    """TypeError, as of the library, for a class whose records could not be made by the order of its fields."""
    for before, field in pairwise(fields):
        if _has_default(before) and not _has_default(field):
            raise TypeError(f"{kind.__qualname__}: non-default argument {field.name!r} follows default argument")


def _step(kind: Any, i: int, field: dataclasses.Field[Any]) -> str:
    """The line of `__init__` that fills field number i."""
    made = field.default_factory is not dataclasses.MISSING
    if field.init:
        value = f"make{i}() if f{i} is MISSING else f{i}" if made else f"f{i}"
    elif made or field.default is not dataclasses.MISSING:
        value = f"make{i}()" if made else f"default{i}"
    else:
        return "pass"
    if not kind.__dataclass_params__.frozen:
        return f"self.f{i} = {value}"
    slot = isinstance(getattr(kind, field.name, None), MemberDescriptorType)
    return f"set{i}(self, {value})" if slot else f"self.__dict__[name{i}] = {value}"


if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    dataclass = _dataclass


@contextmanager
def many_records() -> Iterator[None]:
    """While this lasts Python does not look for circles of objects that nobody needs. Graphs, operations and tasks are
    trees: it would walk all of them again and again, a fifth of the time of a compilation, and find nothing. Objects
    that are no part of a circle are given back as ever. Of several threads the first to end lets it look again."""
    looked = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if looked:
            gc.enable()
