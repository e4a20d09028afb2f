"""Objective-C messages through ctypes: classes, selectors, typed sends, autorelease pools.

`objc_msgSend` is one function with the signature of whatever method it finds, so it is entered through a prototype made
from the method's type encoding. Never through the untyped default: on arm64 macOS variadic arguments go to the stack
while methods expect registers, narrow integers are not widened, and a BOOL result defines the lowest byte alone. Before
a method is called for the first time on a class, the encoding the runtime states is compared with the one this package
was written for: an update of the system ends in DeviceChanged, not in a crash. Exceptions of Objective-C cannot be
caught through ctypes: they end the process, which is why a worker normally owns it.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

from openane.devices.macos.symbols import OBJC, RuntimeSymbols
from openane.errors import DeviceChanged, DeviceUnavailable
from openane.record_classes import dataclass

POINTER = ctypes.c_void_p
Function = Callable[..., Any]

_C_TYPES: dict[str, Any] = {
    "@": POINTER, "#": POINTER, ":": POINTER, "^": POINTER, "*": ctypes.c_char_p, "v": None, "B": ctypes.c_bool,
    "c": ctypes.c_bool, "C": ctypes.c_bool, "i": ctypes.c_int32, "I": ctypes.c_uint32, "q": ctypes.c_int64,
    "Q": ctypes.c_uint64, "d": ctypes.c_double,
}
"""First character of an encoded type to the C type. BOOL is C's bool on arm64, signed char on x86 macOS, unsigned char
in GNUstep; one byte each."""

_SAME = {"#": "@", "*": "^", "c": "B", "C": "B", "I": "i", "Q": "q", "l": "q", "L": "q"}
"""Types that are passed alike and that headers exchange without changing a method."""

_QUALIFIERS = "rnNoORVA"


@dataclass(frozen=True, slots=True)
class Selector:
    """A message: its name, and the encoded types of result and arguments, receiver and selector left out.

    `Selector("evaluateWithQoS:options:request:error:", "B", "I", "@", "@", "^@")`
    """

    name: str
    result: str
    arguments: tuple[str, ...]

    def __init__(self, name: str, result: str, *arguments: str) -> None:
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "result", result)
        object.__setattr__(self, "arguments", arguments)

    @property
    def encoding(self) -> str:
        """As the runtime writes it, without offsets."""
        return "".join((self.result, "@", ":", *self.arguments))


def passed_types(encoding: str) -> tuple[str, ...]:
    """How result, receiver, selector and arguments of a type encoding are passed: one character each.

    Offsets, qualifiers, what a pointer points to and the signs of integers are left out; an object, a pointer, a
    selector and integers of each size are different.
    """
    return tuple(_SAME.get(first, first) for first in map(_first, _split(encoding)))


def _split(encoding: str) -> Iterator[str]:
    """The types of an encoding one by one, offsets dropped. Nested braces count as one type."""
    position = 0
    while position < len(encoding):
        start = position
        while position < len(encoding) and (encoding[position] in _QUALIFIERS or encoding[position] == "^"):
            position += 1
        position = _closing(encoding, position) + 1
        if encoding[position:position + 1] == "?":  # @? is a block
            position += 1
        yield encoding[start:position]
        while position < len(encoding) and (encoding[position].isdigit() or encoding[position] in "+-"):
            position += 1


def _closing(encoding: str, position: int) -> int:
    """Position of the last character of the type at `position`."""
    pairs = {"{": "}", "[": "]", "(": ")"}
    if position >= len(encoding) or encoding[position] not in pairs:
        if encoding[position:position + 2] == '@"':
            return max(encoding.find('"', position + 2), position + 1)
        return position
    depth = 0
    for place in range(position, len(encoding)):
        depth += (encoding[place] in pairs) - (encoding[place] in pairs.values())
        if depth == 0:
            return place
    return len(encoding) - 1


def _first(one: str) -> str:
    return re.sub(f"^[{_QUALIFIERS}]+", "", one)[:1]


class ObjC:
    """The runtime behind `symbols`. Usable by several threads; each needs its own `pool`."""

    def __init__(self, symbols: RuntimeSymbols) -> None:
        """DeviceUnavailable when the runtime is not there, DeviceChanged when a function of it is missing."""
        self._symbols, self._process = symbols, os.getpid()
        self._get_class = self.function(OBJC, "objc_getClass", POINTER, ctypes.c_char_p)
        self._register = self.function(OBJC, "sel_registerName", POINTER, ctypes.c_char_p)
        self._class_of = self.function(OBJC, "object_getClass", POINTER, POINTER)
        self._name_of = self.function(OBJC, "class_getName", ctypes.c_char_p, POINTER)
        self._method = self.function(OBJC, "class_getInstanceMethod", POINTER, POINTER, POINTER)
        self._encoding = self.function(OBJC, "method_getTypeEncoding", ctypes.c_char_p, POINTER)
        self._push = self.function(OBJC, "objc_autoreleasePoolPush", POINTER)
        self._pop = self.function(OBJC, "objc_autoreleasePoolPop", None, POINTER)
        self._retain = self.function(OBJC, "objc_retain", POINTER, POINTER)
        self._release = self.function(OBJC, "objc_release", None, POINTER)
        self._send = self._address(OBJC, "objc_msgSend")
        self._classes: dict[str, int] = {}
        self._selectors: dict[str, int] = {}
        self._checked: dict[tuple[int, Selector], Function] = {}

    @property
    def forked(self) -> bool:
        """Whether this is not the process that opened the runtime: its objects are not this one's."""
        return os.getpid() != self._process

    def function(self, library: str, name: str, result: Any, *arguments: Any) -> Function:
        """A C function with its prototype. DeviceChanged when the library does not export it."""
        prototype = ctypes.CFUNCTYPE(result, *arguments)
        return cast(Function, prototype(self._address(library, name)))

    def cls(self, name: str) -> int:
        """The class called `name`. DeviceChanged when the system has none."""
        if name not in self._classes:
            found = self._get_class(name.encode())
            if not found:
                raise DeviceChanged(f"class {name}", expected="a class of the system", found="none")
            self._classes[name] = found
        return self._classes[name]

    def exists(self, name: str) -> bool:
        """Whether the system has a class of this name."""
        return bool(self._get_class(name.encode()))

    def metaclass(self, name: str) -> int:
        """The class of a class: it has the factory methods. DeviceChanged as `cls`."""
        return int(self._class_of(self.cls(name)))

    def encoding(self, name: str, selector: str, of_class: bool = False) -> str:
        """The type encoding the system states for a method; empty when there is no such class or method."""
        if not self.exists(name):
            return ""
        method = self._method(self.metaclass(name) if of_class else self.cls(name), self.selector(selector))
        return (self._encoding(method) or b"").decode("ascii", "replace") if method else ""

    def check(self, name: str, *selectors: Selector, of_class: bool = False) -> None:
        """DeviceChanged unless instances of class `name` (or the class itself) have these methods as stated."""
        receiver = self.cls(name)
        owner = self._class_of(receiver) if of_class else receiver
        for selector in selectors:
            self._resolve(owner, selector, f"{'+' if of_class else '-'}[{name} {selector.name}]")

    def send(self, receiver: int, selector: Selector, *arguments: Any) -> Any:
        """Sends a message. The first time for a class of receivers the method is looked up and checked: DeviceChanged
        when there is none or its types are others. Sends to nil are a defect of the caller."""
        owner = self._class_of(receiver)
        call = self._checked.get((owner, selector))
        if call is None:
            call = self._resolve(owner, selector, f"[{self._name_of(owner).decode()} {selector.name}]")
        return call(receiver, self.selector(selector.name), *arguments)

    def responds(self, receiver: int, selector: Selector) -> bool:
        """Whether the receiver has the method with the stated types."""
        try:
            self._resolve(self._class_of(receiver), selector, "")
        except DeviceChanged:
            return False
        return True

    def selector(self, name: str) -> int:
        """The registered selector."""
        if name not in self._selectors:
            self._selectors[name] = self._register(name.encode())
        return self._selectors[name]

    @contextmanager
    def pool(self) -> Iterator[None]:
        """An autorelease pool for this thread: objects factories gave are released when it ends. DeviceUnavailable in a
        process that was forked, where the runtime's threads and connections are gone."""
        if self.forked:
            raise DeviceUnavailable("the Objective-C runtime was opened before this process was forked",
                                    "start processes with the 'spawn' method, or open the device after the fork")
        pool = self._push()
        try:
            yield
        finally:
            self._pop(pool)

    def retain(self, thing: int) -> int:
        """Keeps an object beyond its pool."""
        self._retain(thing)
        return thing

    def release(self, thing: int) -> None:
        """Gives a retained object back."""
        self._release(thing)

    def _resolve(self, owner: int, selector: Selector, interface: str) -> Function:
        """The checked call of a selector on a class; `interface` is what messages call it."""
        method = self._method(owner, self.selector(selector.name))
        if not method:
            raise DeviceChanged(interface, expected=selector.encoding, found="no such method")
        found = (self._encoding(method) or b"").decode("ascii", "replace")
        if passed_types(found) != passed_types(selector.encoding):
            raise DeviceChanged(interface, expected=selector.encoding, found=found)
        types = [_C_TYPES[_first(each)] for each in (selector.result, *selector.arguments)]
        prototype = ctypes.CFUNCTYPE(types[0], POINTER, POINTER, *types[1:])
        call = cast(Function, prototype(self._send))
        self._checked[owner, selector] = call
        return call

    def _address(self, library: str, name: str) -> int:
        try:
            return self._symbols.function(library, name)
        except KeyError:
            raise DeviceChanged(f"{name} of {library}", expected="an exported function", found="none") from None
