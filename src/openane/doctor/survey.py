"""What a Mac's private interfaces are, selector by selector, against those this package knows: a JSON to contribute.

Classes and methods are looked up and their type encodings read; none of them is called, so nothing can crash. Chaining,
shared events and performance counters are probed the same way: whether their classes and methods exist, as published
(whether they work for a process without entitlements is known to be no, so far).
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping
from typing import Any

from openane.devices.macos import interfaces
from openane.devices.macos.e5rt_functions import PROTOTYPES
from openane.devices.macos.interfaces import Needed
from openane.devices.macos.objc import ObjC, Selector, passed_types
from openane.devices.macos.symbols import ESPRESSO, FOUNDATION, IO_SURFACE, NEURAL_ENGINE, OBJC, RuntimeSymbols
from openane.errors import DeviceError
from openane.version import __version__

FORMAT, VERSION = "openane survey of macOS", 1
MOST_METHODS = 4096
POINTER = ctypes.c_void_p

PROBED: Mapping[str, Mapping[str, Needed]] = {
    "chaining": {
        "_ANEBuffer": Needed(factory=(Selector("bufferWithIOSurfaceObject:symbolIndex:source:", "@", "@", "@", "q"),)),
        "_ANEChainingRequest": Needed(methods=(Selector("validate", "B"),)),
        "_ANEIOSurfaceOutputSets": Needed(factory=(Selector("objectWithstatsSurRef:outputBuffer:", "@",
                                                            "^{__IOSurface=}", "@"),)),
        interfaces.CLIENT: Needed(methods=(Selector("prepareChainingWithModel:options:chainingReq:qos:error:", "B", "@",
                                                    "@", "@", "I", "^@"),)),
    },
    "events": {"_ANESharedEvents": Needed(), "_ANESharedSignalEvent": Needed(), "_ANESharedWaitEvent": Needed(),
               "_ANEInputBuffersReady": Needed(), "_ANEOutputSetEnqueue": Needed()},
    "counters": {"_ANEPerformanceStats": Needed(factory=(Selector("statsWithHardwareExecutionNS:", "@", "Q"),),
                                                methods=(interfaces.HARDWARE_TIME, Selector("perfCounterData", "@"),
                                                         Selector("pStatsRawData", "@")))},
}
"""What nobody could use yet without entitlements, as published."""


def survey(symbols: RuntimeSymbols) -> dict[str, Any]:
    """Everything about the interfaces behind `symbols`, as one JSON document. Never raises for what is missing."""
    platform = symbols.platform
    libraries = {name: _loads(symbols, name) for name in (OBJC, FOUNDATION, IO_SURFACE, NEURAL_ENGINE, ESPRESSO)}
    document: dict[str, Any] = {
        "format": FORMAT, "version": VERSION, "openane": __version__,
        "platform": {"machine": platform.machine, "system": platform.system, "version": platform.version,
                     "build": platform.build, "processor": platform.processor, "simulated": platform.simulated},
        "libraries": libraries, "e5rt": {name: _exported(symbols, name) for name in PROTOTYPES},
    }
    try:
        objc = ObjC(symbols)
    except DeviceError as error:
        return document | {"runtime": str(error), "optional": {}, "interfaces": {}, "probes": {}, "methods": {}}
    known = _merged(interfaces.NEEDED, *interfaces.NEEDED_BY_PATH.values(), interfaces.OPTIONAL)
    everything = _merged(known, *PROBED.values())
    return document | {
        "runtime": "", "optional": _optional(),
        "interfaces": {name: _compared(objc, name, needed) for name, needed in known.items()},
        "probes": {topic: {name: _compared(objc, name, needed) for name, needed in classes.items()}
                   for topic, classes in PROBED.items()},
        "methods": {name: dict(sorted(_methods(objc, symbols, name))) for name in everything},
    }


def differences(document: Mapping[str, Any]) -> list[str]:
    """What of a survey is not as this package knows it, a line each."""
    found = [f"library {name}: {why}" for name, why in document["libraries"].items() if why]
    found += [document["runtime"]] if document["runtime"] else []
    for name, methods in document["interfaces"].items():
        for method, (expected, has) in methods.items():
            if not has and method in document["optional"].get(name, ()):
                continue
            if not has:
                found.append(f"{method.replace('[', f'[{name} ')}: not there")
            elif passed_types(has) != passed_types(expected):
                found.append(f"{method.replace('[', f'[{name} ')}: expected {expected}, found {has}")
    return found + [f"e5rt: {name} is not exported" for name, there in document["e5rt"].items() if not there]


def _optional() -> dict[str, list[str]]:
    """Methods that are used where they are there, by class."""
    return {name: [f"+[{each.name}]" for each in needed.factory] + [f"-[{each.name}]" for each in needed.methods]
            for name, needed in interfaces.OPTIONAL.items()}


def _merged(*groups: Mapping[str, Needed]) -> dict[str, Needed]:
    found: dict[str, Needed] = {}
    for group in groups:
        for name, needed in group.items():
            before = found.get(name, Needed())
            found[name] = Needed(tuple(dict.fromkeys((*before.factory, *needed.factory))),
                                 tuple(dict.fromkeys((*before.methods, *needed.methods))))
    return found


def _loads(symbols: RuntimeSymbols, library: str) -> str:
    """Empty, or why a library does not load."""
    try:
        symbols.load(library)
    except DeviceError as error:
        return str(error)
    return ""


def _exported(symbols: RuntimeSymbols, name: str) -> bool:
    try:
        return bool(symbols.function(ESPRESSO, name))
    except (KeyError, DeviceError):
        return False


def _compared(objc: ObjC, name: str, needed: Needed) -> dict[str, tuple[str, str]]:
    """`+[selector]` or `-[selector]` to the encoding this package knows and the one the system states (or nothing)."""
    found = {}
    for mark, selectors in (("+", needed.factory), ("-", needed.methods)):
        for selector in selectors:
            found[f"{mark}[{selector.name}]"] = (selector.encoding, objc.encoding(name, selector.name, mark == "+"))
    return found or {"class": ("a class", name if objc.exists(name) else "")}


def _methods(objc: ObjC, symbols: RuntimeSymbols, name: str) -> Iterator[tuple[str, str]]:
    """Every method of a class and of its metaclass: `-[selector]` or `+[selector]` to its type encoding."""
    if not objc.exists(name):
        return
    try:
        copy = objc.function(OBJC, "class_copyMethodList", POINTER, POINTER, ctypes.POINTER(ctypes.c_uint))
        name_of = objc.function(OBJC, "method_getName", POINTER, POINTER)
        text_of = objc.function(OBJC, "sel_getName", ctypes.c_char_p, POINTER)
        types_of = objc.function(OBJC, "method_getTypeEncoding", ctypes.c_char_p, POINTER)
    except DeviceError:
        return
    free = ctypes.CDLL(None).free
    free.argtypes, free.restype = [POINTER], None
    for mark, owner in (("-", objc.cls(name)), ("+", objc.metaclass(name))):
        count = ctypes.c_uint()
        listed = copy(owner, ctypes.byref(count))
        if not listed:
            continue
        try:
            methods = ctypes.cast(listed, ctypes.POINTER(POINTER))
            for place in range(min(count.value, MOST_METHODS)):
                text = text_of(name_of(methods[place])) or b""
                yield f"{mark}[{text.decode('ascii', 'replace')}]", \
                    (types_of(methods[place]) or b"").decode("ascii", "replace")
        finally:
            free(listed)
