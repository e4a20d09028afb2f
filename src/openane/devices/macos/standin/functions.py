"""The C functions of the Objective-C runtime and of Foundation, over the stand-in's runtime."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any

from openane.devices.macos.standin import foundation
from openane.devices.macos.standin.definitions import Class, Instance, Method
from openane.devices.macos.standin.running import temporary_directory
from openane.devices.macos.standin.runtime import WORDS, Runtime
from openane.devices.macos.standin.surfaces import POINTER, CFunction
from openane.devices.macos.standin.types import split_types, with_offsets


def _class(runtime: Runtime, name: bytes | None) -> int:
    found = runtime.classes.get((name or b"").decode("utf-8", "replace"))
    return found.handle if found else 0


def _class_of(runtime: Runtime, handle: int) -> int:
    found = runtime.objects.get(handle)
    if isinstance(found, Class):
        return found.meta
    instance = runtime.instance(handle)
    return instance.kind.handle if instance else 0


def _behind(runtime: Runtime, handle: int) -> tuple[Class, bool] | None:
    """A class, and whether the number stands for its class methods."""
    found = runtime.objects.get(handle)
    if isinstance(found, Class):
        return found, False
    return next(((each, True) for each in runtime.classes.values() if each.meta == handle), None)


def _method(runtime: Runtime, handle: int, selector: int) -> int:
    known, name = _behind(runtime, handle), runtime.selector_name(selector)
    method = known[0].find(name, known[1]) if known and name else None
    return runtime.method_handle(method, name or "") if method else 0


def _class_method(runtime: Runtime, handle: int, selector: int) -> int:
    known = runtime.objects.get(handle)
    return _method(runtime, known.meta, selector) if isinstance(known, Class) else 0


def _encoding(runtime: Runtime, handle: int) -> int:
    method, _ = runtime.methods[handle]
    return runtime.text(with_offsets(method.types))


def _list(runtime: Runtime, handle: int, count: int) -> int:
    """class_copyMethodList: memory of the C library, which the caller frees; NULL when there is none."""
    known = _behind(runtime, handle)
    table: Mapping[str, Method] = {} if not known else known[0].factory if known[1] else known[0].methods
    if count:
        ctypes.c_uint.from_address(count).value = len(table)
    if not table:
        return 0
    allocate = ctypes.CDLL(None).malloc
    allocate.restype, allocate.argtypes = ctypes.c_size_t, [ctypes.c_size_t]
    handles = [runtime.method_handle(method, name) for name, method in table.items()]
    memory = int(allocate(ctypes.sizeof(POINTER) * (len(handles) + 1)))
    (POINTER * (len(handles) + 1)).from_address(memory)[:] = [*handles, 0]
    return memory


def _name(runtime: Runtime, handle: int) -> int:
    known = _behind(runtime, handle)
    return runtime.text(known[0].name) if known else 0


def _parent(runtime: Runtime, handle: int) -> int:
    known = _behind(runtime, handle)
    parent = known[0].parent if known else None
    return 0 if parent is None or known is None else parent.meta if known[1] else parent.handle


def _owned(runtime: Runtime, handle: int) -> Instance | None:
    """An object for the functions that count owners; classes and nil are not counted."""
    return None if isinstance(runtime.objects.get(handle), Class) else runtime.instance(handle)


def _retain(runtime: Runtime, handle: int) -> int:
    found = _owned(runtime, handle)
    return runtime.retain(found).handle if found else handle


def _release(runtime: Runtime, handle: int) -> None:
    found = _owned(runtime, handle)
    if found:
        runtime.release(found)


def _autorelease(runtime: Runtime, handle: int) -> int:
    found = _owned(runtime, handle)
    return runtime.autorelease(found).handle if found else handle


def _responds(runtime: Runtime, handle: int, selector: int) -> bool:
    return bool(_method(runtime, handle, selector))


def _temporary(runtime: Runtime) -> int:
    return foundation.string(runtime, temporary_directory(runtime)).handle


def _message(runtime: Runtime, *words: int) -> int:
    return runtime.send(*words)


def _argument_count(runtime: Runtime, handle: int) -> int:
    return len(split_types(runtime.methods[handle][0].types)) - 1


_TEXT: Any = ctypes.c_char_p

OBJC_FUNCTIONS: Mapping[str, CFunction] = {
    "objc_getClass": CFunction(POINTER, [_TEXT], _class),
    "objc_lookUpClass": CFunction(POINTER, [_TEXT], _class),
    "sel_registerName": CFunction(POINTER, [_TEXT], lambda runtime, name: runtime.selector(name.decode())),
    "sel_getName": CFunction(POINTER, [POINTER], lambda runtime, handle: runtime.text(
        runtime.selector_name(handle) or "<null selector>")),
    "objc_msgSend": CFunction(POINTER, [POINTER] * WORDS, _message),
    "object_getClass": CFunction(POINTER, [POINTER], _class_of),
    "class_getName": CFunction(POINTER, [POINTER], _name),
    "class_getSuperclass": CFunction(POINTER, [POINTER], _parent),
    "class_getInstanceMethod": CFunction(POINTER, [POINTER, POINTER], _method),
    "class_getClassMethod": CFunction(POINTER, [POINTER, POINTER], _class_method),
    "class_respondsToSelector": CFunction(ctypes.c_bool, [POINTER, POINTER], _responds),
    "class_copyMethodList": CFunction(POINTER, [POINTER, POINTER], _list),
    "method_getTypeEncoding": CFunction(POINTER, [POINTER], _encoding),
    "method_getNumberOfArguments": CFunction(ctypes.c_uint, [POINTER], _argument_count),
    "method_getName": CFunction(POINTER, [POINTER], lambda runtime, handle: runtime.selector(
        runtime.methods[handle][1])),
    "objc_autoreleasePoolPush": CFunction(POINTER, [], lambda runtime: runtime.push_pool()),
    "objc_autoreleasePoolPop": CFunction(None, [POINTER], lambda runtime, token: runtime.pop_pool(token)),
    "objc_retain": CFunction(POINTER, [POINTER], _retain),
    "objc_release": CFunction(None, [POINTER], _release),
    "objc_autorelease": CFunction(POINTER, [POINTER], _autorelease),
}

FOUNDATION_FUNCTIONS: Mapping[str, CFunction] = {"NSTemporaryDirectory": CFunction(POINTER, [], _temporary)}
