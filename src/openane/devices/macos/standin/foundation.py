"""Foundation: strings, data, numbers, collections and errors, as far as a bridge to the engine needs them.

Objects of class clusters are of private subclasses, as on the system, so that comparing classes for equality fails
where asking `isKindOfClass:` does not.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import Any

from openane.devices.macos.standin.definitions import Class, ClassDefinition, Instance, Method, ObjectiveCException
from openane.devices.macos.standin.runtime import Runtime
from openane.devices.macos.symbols import FOUNDATION, OBJC

STRING, DATA, NUMBER = "__NSCFString", "NSConcreteData", "__NSCFNumber"
ARRAY, DICTIONARY, ERROR = "__NSArrayI", "__NSDictionaryI", "NSError"
UTF8 = 4
"""NSUTF8StringEncoding."""


def string(runtime: Runtime, text: str) -> Instance:
    """An autoreleased NSString."""
    return runtime.made(STRING, text)


def number(runtime: Runtime, value: int | float) -> Instance:
    """An autoreleased NSNumber."""
    return runtime.made(NUMBER, value)


def array(runtime: Runtime, items: Sequence[Instance]) -> Instance:
    """An autoreleased NSArray."""
    return runtime.made(ARRAY, list(items), items)


def dictionary(runtime: Runtime, items: dict[str, Instance]) -> Instance:
    """An autoreleased NSDictionary with strings as keys."""
    pairs = [(string(runtime, key), value) for key, value in items.items()]
    return runtime.made(DICTIONARY, pairs, [each for pair in pairs for each in pair])


def error(runtime: Runtime, domain: str, code: int, text: str) -> Instance:
    """An autoreleased NSError."""
    return runtime.made(ERROR, (domain, code, text))


def require(value: Instance | Class | None, kind: str, what: str) -> Instance:
    """An object of a class; what else arrives does not understand the first message it gets, which is an exception."""
    if not isinstance(value, Instance):
        raise ObjectiveCException("NSInvalidArgumentException", f"{what} must be an {kind}, not {value}")
    if not value.isa(kind):
        raise ObjectiveCException("NSInvalidArgumentException",
                                  f"-[{value.kind.name} {_FIRST_MESSAGE.get(kind, 'init')}]: unrecognized selector "
                                  f"sent to instance {value.handle:#x} ({what} must be an {kind})")
    return value


_FIRST_MESSAGE = {"NSData": "bytes", "NSString": "UTF8String", "NSArray": "objectAtIndex:",
                  "NSDictionary": "objectForKey:", "NSNumber": "unsignedIntegerValue"}


def to_python(value: Any) -> Any:
    """What a tree of Foundation objects holds: str, bytes, numbers, lists, dicts; other objects stay themselves."""
    if not isinstance(value, Instance):
        return value
    if value.isa("NSArray"):
        return [to_python(each) for each in value.value]
    if value.isa("NSDictionary"):
        return {to_python(key): to_python(each) for key, each in value.value}
    if value.isa("NSString") or value.isa("NSData") or value.isa("NSNumber"):
        return value.value
    return value


def lookup(value: Instance, key: str) -> Instance | None:
    """An NSDictionary's object for a string."""
    return next((each for known, each in value.value if known.value == key), None)


def description(value: Instance | Class) -> str:
    """What `-description` says."""
    if isinstance(value, Class):
        return value.name
    if value.isa("NSError"):
        domain, code, text = value.value
        return f"Error Domain={domain} Code={code} \"{text}\""
    found = to_python(value)
    return f"<{value.kind.name}: {value.handle:#x}>" if isinstance(found, Instance) else str(found)


def c_string(instance: Instance, text: str) -> int:
    """Address of UTF-8 text that lives as long as the object."""
    buffer = ctypes.create_string_buffer(text.encode())
    instance.memory = (instance.memory, buffer)
    return ctypes.addressof(buffer)


def _pointers(address: int, count: int) -> list[int]:
    if count > 2**20:
        raise ObjectiveCException("NSInvalidArgumentException", f"count ({count}) of objects is ridiculous")
    return list((ctypes.c_size_t * count).from_address(address)) if count else []


def _items(runtime: Runtime, address: int, count: int, who: str) -> list[Instance]:
    found = [runtime.instance(each) for each in _pointers(address, count)]
    for position, each in enumerate(found):
        if each is None:
            raise ObjectiveCException("NSInvalidArgumentException",
                                      f"*** -[{who} initWithObjects:count:]: attempt to insert nil object from "
                                      f"objects[{position}]")
    return [each for each in found if each is not None]


def _text(value: bytes | None, who: str) -> str:
    if value is None:
        raise ObjectiveCException("NSInvalidArgumentException", f"*** {who}: NULL cString")
    return value.decode()


def _data(runtime: Runtime, _: Class, address: int, length: int) -> Instance:
    made = runtime.made(DATA, ctypes.string_at(address, length) if length else b"")
    made.memory = ctypes.create_string_buffer(made.value, max(1, length))
    return made


def _dictionary(runtime: Runtime, _: Class, values: int, keys: int, count: int) -> Instance:
    pairs = list(zip(_items(runtime, keys, count, DICTIONARY), _items(runtime, values, count, DICTIONARY), strict=True))
    return runtime.made(DICTIONARY, pairs, [each for pair in pairs for each in pair])


def _at(value: Instance, index: int) -> Instance:
    if not 0 <= index < len(value.value):
        raise ObjectiveCException("NSRangeException", f"*** -[{ARRAY} objectAtIndex:]: index {index} beyond bounds "
                                                      f"[0 .. {len(value.value) - 1}]")
    return value.value[index]  # type: ignore[no-any-return]


def _key(value: Instance, key: Any) -> Instance | None:
    return lookup(value, require(key, "NSString", "a key").value)


def _set(runtime: Runtime, into: Instance, value: Any, key: Any) -> None:
    pair = require(key, "NSString", "a key"), require(value, "NSObject", "object")
    into.value = [each for each in into.value if each[0].value != pair[0].value] + [pair]
    into.owned += [runtime.retain(each) for each in pair]


def _append(runtime: Runtime, into: Instance, value: Any) -> None:
    into.value.append(require(value, "NSObject", "object"))
    into.owned.append(runtime.retain(value))


def _responds(target: Instance | Class, selector: str | None) -> bool:
    factory = isinstance(target, Class)
    kind = target if isinstance(target, Class) else target.kind
    return selector is not None and kind.find(selector, factory) is not None


def _alloc(runtime: Runtime, kind: Class) -> Instance:
    return runtime.make_of(kind, kind.definition.value() if kind.definition.value else None)


def _integer(value: Instance) -> int:
    return int(value.value) if math.isfinite(value.value) else 0


_OBJECT = ClassDefinition("NSObject", OBJC, factory={
    "alloc": Method("@@:", _alloc),
    "new": Method("@@:", _alloc),
    "class": Method("#@:", lambda _, kind: kind),
}, methods={
    "init": Method("@@:", lambda _, me: me),
    "retain": Method("@@:", lambda runtime, me: runtime.retain(me)),
    "release": Method("v@:", lambda runtime, me: runtime.release(me)),
    "autorelease": Method("@@:", lambda runtime, me: runtime.autorelease(me)),
    "retainCount": Method("Q@:", lambda _, me: me.retains),
    "class": Method("#@:", lambda _, me: me.kind),
    "description": Method("@@:", lambda runtime, me: string(runtime, description(me))),
    "isKindOfClass:": Method("B@:#", lambda _, me, kind: me.isa(kind.name)),
    "respondsToSelector:": Method("B@::", lambda _, me, selector: _responds(me, selector)),
    "isEqual:": Method("B@:@", lambda _, me, other: other is not None and (
        me is other or to_python(me) == to_python(other))),
})

_STRING = ClassDefinition("NSString", FOUNDATION, factory={
    "stringWithUTF8String:": Method("@@:r*", lambda runtime, _, text: string(runtime, _text(text, "+[NSString "
                                    "stringWithUTF8String:]"))),
}, methods={
    "UTF8String": Method("r*@:", lambda _, me: c_string(me, me.value)),
    "length": Method("Q@:", lambda _, me: len(me.value)),
    "lengthOfBytesUsingEncoding:": Method("Q@:Q", lambda _, me, encoding: len(me.value.encode())
                                          if encoding == UTF8 else 0),
    "isEqualToString:": Method("B@:@", lambda _, me, other: other is not None and me.value == other.value),
})

_DATA = ClassDefinition("NSData", FOUNDATION, factory={
    "data": Method("@@:", lambda runtime, kind: _data(runtime, kind, 0, 0)),
    "dataWithBytes:length:": Method("@@:r^vQ", _data),
}, methods={
    "bytes": Method("r^v@:", lambda _, me: ctypes.addressof(me.memory)),
    "length": Method("Q@:", lambda _, me: len(me.value)),
})

_NUMBER = ClassDefinition("NSNumber", FOUNDATION, factory={
    f"numberWith{name}:": Method(f"@@:{kind}", lambda runtime, _, value: number(runtime, value))
    for name, kind in (("Bool", "B"), ("Int", "i"), ("UnsignedInt", "I"), ("Long", "q"), ("LongLong", "q"),
                       ("Integer", "q"), ("UnsignedLong", "Q"), ("UnsignedLongLong", "Q"), ("UnsignedInteger", "Q"))
}, methods={
    f"{name}Value": Method(f"{kind}@:", lambda _, me: _integer(me))
    for name, kind in (("bool", "B"), ("int", "i"), ("unsignedInt", "I"), ("long", "q"), ("longLong", "q"),
                       ("integer", "q"), ("unsignedLong", "Q"), ("unsignedLongLong", "Q"), ("unsignedInteger", "Q"))
})

_ARRAY = ClassDefinition("NSArray", FOUNDATION, value=list, factory={
    "array": Method("@@:", lambda runtime, _: array(runtime, ())),
    "arrayWithObject:": Method("@@:@", lambda runtime, _, one: array(runtime, [require(one, "NSObject", "object")])),
    "arrayWithObjects:count:": Method("@@:r^@Q", lambda runtime, _, address, count: array(
        runtime, _items(runtime, address, count, ARRAY))),
}, methods={
    "count": Method("Q@:", lambda _, me: len(me.value)),
    "objectAtIndex:": Method("@@:Q", lambda _, me, index: _at(me, index)),
})

_DICTIONARY = ClassDefinition("NSDictionary", FOUNDATION, value=list, factory={
    "dictionary": Method("@@:", lambda runtime, kind: _dictionary(runtime, kind, 0, 0, 0)),
    "dictionaryWithObjects:forKeys:count:": Method("@@:r^@r^@Q", _dictionary),
}, methods={
    "count": Method("Q@:", lambda _, me: len(me.value)),
    "objectForKey:": Method("@@:@", lambda _, me, key: _key(me, key)),
    "allKeys": Method("@@:", lambda runtime, me: array(runtime, [key for key, _ in me.value])),
})

_URL = ClassDefinition("NSURL", FOUNDATION, factory={
    "fileURLWithPath:": Method("@@:@", lambda runtime, kind, path: runtime.made(
        kind.name, require(path, "NSString", "the path").value)),
}, methods={"path": Method("@@:", lambda runtime, me: string(runtime, me.value))})

_ERROR = ClassDefinition("NSError", FOUNDATION, methods={
    "domain": Method("@@:", lambda runtime, me: string(runtime, me.value[0])),
    "code": Method("q@:", lambda _, me: me.value[1]),
    "localizedDescription": Method("@@:", lambda runtime, me: string(runtime, me.value[2])),
    "localizedFailureReason": Method("@@:", lambda _, me: None),
    "userInfo": Method("@@:", lambda runtime, me: dictionary(
        runtime, {"NSLocalizedDescription": string(runtime, me.value[2])})),
})

CLASSES = (
    _OBJECT, _STRING, _DATA, _NUMBER, _ARRAY, _DICTIONARY, _URL, _ERROR,
    *(ClassDefinition(name, FOUNDATION, parent, value=list if parent in ("NSArray", "NSDictionary") else None)
      for name, parent in ((STRING, "NSString"), (DATA, "NSData"), (NUMBER, "NSNumber"), (ARRAY, "NSArray"),
                           (DICTIONARY, "NSDictionary"))),
    ClassDefinition("NSMutableArray", FOUNDATION, "NSArray", value=list, methods={
        "addObject:": Method("v@:@", _append)}),
    ClassDefinition("NSMutableDictionary", FOUNDATION, "NSDictionary", value=list, factory={
        "dictionary": Method("@@:", lambda runtime, kind: runtime.autorelease(_alloc(runtime, kind)))}, methods={
        "setObject:forKey:": Method("v@:@@", _set)}),
)
"""Every class, parents first."""
