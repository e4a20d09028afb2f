"""Foundation's values: made from Python's, read back, and NSError as what to raise.

Everything made here is autoreleased: use it inside a pool, retain what outlives it. Collections are made by the
constructors that take C arrays and a count; the variadic ones cannot be called safely through ctypes on arm64.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import cast

from openane.devices.macos.objc import ObjC, Selector
from openane.devices.macos.symbols import FOUNDATION, RuntimeSymbols
from openane.errors import DeviceError
from openane.record_classes import dataclass

STRING = Selector("stringWithUTF8String:", "@", "*")
CHARACTERS = Selector("UTF8String", "*")
DATA = Selector("dataWithBytes:length:", "@", "^v", "Q")
BYTES = Selector("bytes", "^v")
LENGTH = Selector("length", "Q")
NUMBER = Selector("numberWithLongLong:", "@", "q")
INTEGER = Selector("longLongValue", "q")
ARRAY = Selector("arrayWithObjects:count:", "@", "^@", "Q")
COUNT = Selector("count", "Q")
ELEMENT = Selector("objectAtIndex:", "@", "Q")
DICTIONARY = Selector("dictionaryWithObjects:forKeys:count:", "@", "^@", "^@", "Q")
ENTRY = Selector("objectForKey:", "@", "@")
KEYS = Selector("allKeys", "@")
IS_KIND = Selector("isKindOfClass:", "B", "#")
ERROR_DOMAIN = Selector("domain", "@")
ERROR_CODE = Selector("code", "q")
ERROR_TEXT = Selector("localizedDescription", "@")

DEEPEST = 16
"""Levels of nested collections that are read back."""
MOST = 1 << 16
"""Elements of a collection that are read back."""

Plain = str | int | bytes | list["Plain"] | dict[str, "Plain"] | None


@dataclass(frozen=True, slots=True)
class ErrorFacts:
    """What an NSError says."""

    domain: str
    code: int
    text: str


class Foundation:
    """Values of the Foundation framework."""

    def __init__(self, symbols: RuntimeSymbols, objc: ObjC) -> None:
        """DeviceUnavailable when the framework is missing."""
        symbols.load(FOUNDATION)
        self.objc = objc
        function = objc.function(FOUNDATION, "NSTemporaryDirectory", ctypes.c_void_p)
        self._temporary = function

    def string(self, text: str) -> int:
        """An NSString. A NUL inside would end it, so it is refused with DeviceError."""
        if "\0" in text:
            raise DeviceError("a text for the system holds a NUL character")
        return self._made("NSString", STRING, text.encode())

    def data(self, content: bytes) -> int:
        """An NSData with a copy of `content`."""
        return self._made("NSData", DATA, ctypes.cast(ctypes.c_char_p(content), ctypes.c_void_p), len(content))

    def number(self, value: int) -> int:
        """An NSNumber of a whole number."""
        return self._made("NSNumber", NUMBER, value)

    def array(self, elements: Sequence[int]) -> int:
        """An NSArray of objects."""
        return self._made("NSArray", ARRAY, _pointers(elements), len(elements))

    def dictionary(self, entries: Mapping[int, int] | None = None) -> int:
        """An NSDictionary of objects by objects; empty by default, which is not nil."""
        known = entries or {}
        return self._made("NSDictionary", DICTIONARY, _pointers(list(known.values())), _pointers(list(known)),
                          len(known))

    def temporary_directory(self) -> str:
        """Where the system keeps temporary files of this process; it may differ from Python's choice."""
        return self.text(self._temporary() or 0)

    def text(self, thing: int) -> str:
        """The text of an NSString; empty for nil and for anything else."""
        found = self.python_value(thing)
        return found if isinstance(found, str) else ""

    def python_value(self, thing: int, depth: int = 0) -> Plain:
        """Python's value for an NSString, NSNumber, NSData, NSArray or NSDictionary with string keys; None for nil and
        for objects of other classes. DeviceError for collections deeper or larger than any the system is known to
        give."""
        if not thing:
            return None
        if depth > DEEPEST:
            raise DeviceError(f"an answer of the system is nested more than {DEEPEST} levels deep")
        if self._is(thing, "NSString"):
            return (self.objc.send(thing, CHARACTERS) or b"").decode("utf-8", "replace")
        if self._is(thing, "NSNumber"):
            return int(self.objc.send(thing, INTEGER))
        if self._is(thing, "NSData"):
            return ctypes.string_at(self.objc.send(thing, BYTES) or 0, self.objc.send(thing, LENGTH))
        if self._is(thing, "NSDictionary"):
            keys = self._elements(self.objc.send(thing, KEYS))
            return {self.text(key): self.python_value(self.objc.send(thing, ENTRY, key) or 0, depth + 1)
                    for key in keys}
        if self._is(thing, "NSArray"):
            return [self.python_value(each, depth + 1) for each in self._elements(thing)]
        return None

    def error(self, thing: int | None) -> ErrorFacts:
        """What an NSError says; without an object nothing is known."""
        if not thing or not self._is(thing, "NSError"):
            return ErrorFacts("none", 0, "the system gave no error object")
        objc = self.objc
        return ErrorFacts(self.text(objc.send(thing, ERROR_DOMAIN) or 0), int(objc.send(thing, ERROR_CODE)),
                          self.text(objc.send(thing, ERROR_TEXT) or 0))

    def _is(self, thing: int, name: str) -> bool:
        return bool(self.objc.send(thing, IS_KIND, self.objc.cls(name)))

    def _elements(self, array: int) -> list[int]:
        count = self.objc.send(array, COUNT)
        if count > MOST:
            raise DeviceError(f"an answer of the system has {count} elements; at most {MOST} are read")
        return [self.objc.send(array, ELEMENT, index) for index in range(count)]

    def _made(self, name: str, selector: Selector, *arguments: object) -> int:
        made = self.objc.send(self.objc.cls(name), selector, *arguments)
        if not made:
            raise DeviceError(f"the system made no {name}")
        return cast(int, made)


def _pointers(things: Sequence[int]) -> ctypes.Array[ctypes.c_void_p]:
    """A C array of objects; never of length zero, which C has not."""
    return (ctypes.c_void_p * max(len(things), 1))(*things)
