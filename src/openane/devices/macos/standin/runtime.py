"""The Objective-C runtime of the stand-in: classes, selectors, objects with retain counts, pools, and messages.

Objects are numbers nothing lies behind, handed out once each: whoever reads memory through them faults, as with an
object of another layout, and a message to a released one is told from any other. What on the real system corrupts
memory or throws an exception nobody catches (a message to a released object, an unknown selector, an object of the
wrong class) ends the process here, with the text the system would print.
"""

from __future__ import annotations

import ctypes
import os
import resource
import threading
import traceback
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

from openane.devices.macos.standin.definitions import Class, ClassDefinition, Instance, Method, ObjectiveCException
from openane.devices.macos.standin.faults import Faults
from openane.devices.macos.standin.types import (
    GARBAGE_ABOVE_BYTE,
    GARBAGE_ABOVE_WORD,
    changed,
    narrow,
    split_types,
)
from openane.devices.other_engine import other_engine
from openane.timing import SubmissionRoute

Word = int
WORDS = 12
"""Words a message can carry: receiver, selector and ten arguments."""

Terminate = Callable[[str], None]


def end_process(text: str) -> None:
    """Says why on standard error and aborts, without leaving an image of the process behind."""
    os.write(2, f"{text}\n".encode(errors="replace"))
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    os.abort()


class Runtime:
    """One system's worth of classes and objects. `terminate` is called instead of ending the process, for tests of the
    stand-in itself; the message then gives 0."""

    def __init__(self, faults: Faults, terminate: Terminate = end_process) -> None:
        self.faults, self._terminate = faults, terminate
        self.other = other_engine(faults.engine or None, faults.chip, SubmissionRoute.MACOS)
        self.classes: dict[str, Class] = {}
        self.objects: dict[int, Instance | Class] = {}
        self.problems: list[str] = []
        self.shared: dict[str, Instance] = {}
        self.compiles = self.runs = self.disturbed = 0
        self.e5_objects: dict[int, Any] = {}
        self.e5_count, self.e5_error = 0, ""
        self.methods: dict[int, tuple[Method, str]] = {}
        self._texts: dict[str, ctypes.Array[ctypes.c_char]] = {}
        self._released: dict[int, str] = {}
        self._selectors: dict[str, int] = {}
        self._selector_names: dict[int, str] = {}
        self._pools: dict[int, list[tuple[int, list[Instance]]]] = {}
        self._handles, self._pool_tokens = count(0x600000000010, 16), count(0x7F0000000001)
        self._class_handles, self._selector_handles = count(0x1F0000000, 0x100), count(0x1E0000010, 16)
        self._bound: dict[tuple[Class, bool, str], tuple[Method, Sequence[str], str]] = {}
        self._lock = threading.RLock()

    # Classes and selectors ------------------------------------------------------------------------------------------

    def register(self, definitions: Sequence[ClassDefinition]) -> None:
        """Makes classes known, parents first; those the faults take away stay unknown, known ones stay as they are."""
        for definition in definitions:
            if definition.name in self.faults.missing_class or definition.name in self.classes:
                continue
            handle = next(self._class_handles)
            parent = None if definition.name == "NSObject" else self.classes.get(definition.parent)
            known = Class(definition, parent, handle, handle + 0x80)
            self._apply_faults(known)
            self.classes[known.name] = self.objects[handle] = known

    def _apply_faults(self, known: Class) -> None:
        for table in (known.factory, known.methods):
            for selector in self.faults.missing_selector:
                table.pop(selector, None)
            for selector in set(self.faults.encoding) & set(table):
                table[selector] = Method(changed(table[selector].types), table[selector].call)

    def selector(self, name: str) -> int:
        """The number of a selector."""
        with self._lock:
            if name not in self._selectors:
                self._selectors[name] = next(self._selector_handles)
                self._selector_names[self._selectors[name]] = name
            return self._selectors[name]

    def selector_name(self, handle: int) -> str | None:
        """The name behind a selector's number."""
        return self._selector_names.get(handle)

    def method_handle(self, method: Method, name: str) -> int:
        """The number of a method; the same method always has the same."""
        with self._lock:
            known = next((handle for handle, (each, _) in self.methods.items() if each is method), None)
            if known is None:
                known = 0x1D0000010 + 16 * len(self.methods)
                self.methods[known] = (method, name)
            return known

    def text(self, text: str) -> int:
        """Address of a C string that lives as long as the runtime."""
        if text not in self._texts:
            self._texts[text] = ctypes.create_string_buffer(text.encode())
        return ctypes.addressof(self._texts[text])

    # Objects --------------------------------------------------------------------------------------------------------

    def make(self, kind: str, value: Any = None, owned: Sequence[Instance] = ()) -> Instance:
        """A new object that the caller owns; it retains `owned`."""
        return self.make_of(self.classes[kind], value, owned)

    def make_of(self, kind: Class, value: Any = None, owned: Sequence[Instance] = ()) -> Instance:
        """The same for a class that is at hand."""
        with self._lock:
            made = Instance(kind, next(self._handles), value)
            made.owned = [self.retain(each) for each in owned]
            self.objects[made.handle] = made
        return made

    def retain(self, instance: Instance) -> Instance:
        """Counts one owner more."""
        with self._lock:
            instance.retains += 1
        return instance

    def release(self, instance: Instance) -> None:
        """Counts one owner less; the last one frees the object and releases what it owns."""
        with self._lock:
            instance.retains -= 1
            if instance.retains:
                return
            del self.objects[instance.handle]
            self._released[instance.handle] = instance.kind.name
            if len(self._released) > 10000:
                del self._released[next(iter(self._released))]
        if instance.kind.name == "IOSurface":
            instance.value.close(self)
        for each in instance.owned:
            self.release(each)
        instance.owned, instance.memory = [], None

    def autorelease(self, instance: Instance) -> Instance:
        """Leaves an owner's count to the thread's innermost pool. Without a pool the object leaks, as on the system."""
        pools = self._pools.get(threading.get_ident())
        if pools:
            pools[-1][1].append(instance)
        else:
            self.problem(f"{instance.kind.name} {instance.handle:#x} was autoreleased with no pool in place: a leak")
        return instance

    def made(self, kind: str, value: Any = None, owned: Sequence[Instance] = ()) -> Instance:
        """A new object as factories give it: autoreleased."""
        return self.autorelease(self.make(kind, value, owned))

    def instance(self, handle: int) -> Instance | None:
        """The object behind a number; None for 0. Ends the process for anything that is no object."""
        found = self.objects.get(handle)
        if isinstance(found, Instance):
            return found
        if handle:
            what = self._released.get(handle)
            self.end(f"*** -[{what} retain]: message sent to deallocated instance {handle:#x}" if what
                     else f"EXC_BAD_ACCESS: {handle:#x} is {'a class' if found else 'no object'}")
        return None

    def push_pool(self) -> int:
        """A new innermost pool of this thread."""
        token = next(self._pool_tokens)
        self._pools.setdefault(threading.get_ident(), []).append((token, []))
        return token

    def pop_pool(self, token: int) -> None:
        """Drains a pool of this thread and those pushed after it."""
        pools = self._pools.get(threading.get_ident(), [])
        if token not in [known for known, _ in pools]:
            self.end(f"autorelease pool {token:#x} is not one of this thread, or was popped already")
            return
        last = 0
        while last != token:
            last, instances = pools.pop()
            for each in instances:
                if each.handle in self.objects:
                    self.release(each)
                else:
                    self.problem(f"{each.kind.name} {each.handle:#x} was released once too often before its pool ended")
        if not pools:
            self._pools.pop(threading.get_ident(), None)

    # Messages -------------------------------------------------------------------------------------------------------

    def send(self, receiver: int, selector: int, *words: Word) -> int:
        """One message, as its arguments lie in registers and on the stack."""
        if not receiver:
            return 0
        name = self._selector_names.get(selector)
        target = self.objects.get(receiver)
        if target is None or name is None:
            what = self._released.get(receiver)
            return self.end(f"*** -[{what} {name}]: message sent to deallocated instance {receiver:#x}" if what else
                            f"EXC_BAD_ACCESS: {receiver:#x} is no object, or {selector:#x} no selector")
        try:
            return self._call(target, name, words)
        except ObjectiveCException as thrown:
            return self.end(f"*** Terminating app due to uncaught exception '{thrown.name}', reason: "
                            f"'{thrown.reason}'")
        except Exception:
            return self.end(f"the stand-in itself failed at {name}:\n{traceback.format_exc()}")

    def _call(self, target: Instance | Class, name: str, words: Sequence[Word]) -> int:
        factory = isinstance(target, Class)
        kind = target if isinstance(target, Class) else target.kind
        method, arguments, result = self._prepared(kind, factory, name, target)
        if name in self.faults.nil:
            return 0
        values = [self._value(each, word) for each, word in zip(arguments, words, strict=False)]
        found = method.call(self, target, *values)
        return encode_result(result, found)

    def _prepared(self, kind: Class, factory: bool, name: str,
                  target: Instance | Class) -> tuple[Method, Sequence[str], str]:
        key = (kind, factory, name)
        if key not in self._bound:
            method = kind.find(name, factory)
            if method is None:
                raise ObjectiveCException("NSInvalidArgumentException",
                                          f"{'+' if factory else '-'}[{kind.name} {name}]: unrecognized selector sent "
                                          f"to {'class' if factory else 'instance'} {target.handle:#x}")
            result, _, _, *types = split_types(method.types)
            self._bound[key] = (method, types, result)
        return self._bound[key]

    def _value(self, kind: str, word: Word) -> Any:
        if kind == "@":
            return self._class_or_instance(word) if word else None
        if kind == "#":
            return self.objects.get(word)
        if kind == ":":
            return self._selector_names.get(word)
        if kind == "r*":
            return ctypes.string_at(word) if word else None
        reader = narrow(kind)
        return reader(word) if reader else word

    def _class_or_instance(self, handle: int) -> Instance | Class | None:
        found = self.objects.get(handle)
        return found if found is not None else self.instance(handle)

    # Endings --------------------------------------------------------------------------------------------------------

    def end(self, text: str) -> int:
        """Ends the process."""
        self._terminate(text)
        return 0

    def problem(self, text: str) -> None:
        """Notes what the system would let pass although it is wrong."""
        self.problems.append(text)

    def leaks(self) -> tuple[str, ...]:
        """Objects nobody released and pools nobody popped, one sentence each."""
        permanent = {each.handle for each in self.shared.values()}
        objects = [f"{each.kind.name} {each.handle:#x} was never released ({each.retains} owners)"
                   for each in self.objects.values() if isinstance(each, Instance) and each.handle not in permanent]
        pools = [f"{len(pools)} autorelease pools of a thread were never popped" for pools in self._pools.values()]
        return (*objects, *pools)


def encode_result(kind: str, found: Any) -> int:
    """A result as it lies in the register; what its type does not define is filled with noise."""
    if isinstance(found, Instance | Class):
        return found.handle
    number = int(found or 0)
    if kind in ("B", "c", "C"):
        return GARBAGE_ABOVE_BYTE + ctypes.c_uint8(number).value
    if kind in ("I", "i"):
        return GARBAGE_ABOVE_WORD + ctypes.c_uint32(number).value
    return number
