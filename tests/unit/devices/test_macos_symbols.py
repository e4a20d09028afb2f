"""Functions and data of the system by name, on whatever system this is."""

from __future__ import annotations

import ctypes
import ctypes.util

import pytest
from support.needs import lacking

from openane.devices.macos import discover, symbols
from openane.devices.macos.messages import error_state, received_error
from openane.devices.macos.objc import ObjC
from openane.devices.macos.routes import ROUTES, RouteOptions, open_route, open_symbols
from openane.devices.macos.standin import SimulatedSymbols
from openane.errors import (
    BudgetExhausted,
    DeviceChanged,
    DeviceError,
    DeviceHung,
    DeviceRejected,
    DeviceUnavailable,
    SubmitFailed,
    UnsupportedError,
)


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> str:
    """The C library under the name of one of the system's."""
    path = ctypes.util.find_library("c")
    if path is None:
        lacking("C library", "none is found by name")
    monkeypatch.setitem(symbols.PATHS, symbols.OBJC, path)
    return symbols.OBJC


def test_functions_and_data_are_found(library: str) -> None:
    system = symbols.SystemSymbols()
    system.load(library)
    absolute = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(system.function(library, "abs"))
    assert absolute(-3) == 3
    assert ctypes.c_void_p.from_address(system.data(library, "stdout")).value
    for find in (system.function, system.data):
        with pytest.raises(KeyError, match="no_such_symbol"):
            find(library, "no_such_symbol")
    with pytest.raises(DeviceChanged, match="objc_getClass of libobjc"):
        ObjC(system)
    system.close()
    system.close()


@pytest.mark.needs("other than macOS")
def test_elsewhere_nothing_is_found() -> None:
    system = open_symbols("system")
    assert (system.platform.simulated, system.platform.build, system.platform.processor) == (False, "", "")
    with pytest.raises(DeviceUnavailable, match="does not load /usr/lib/libobjc"):
        system.function(symbols.OBJC, "objc_msgSend")
    assert discover() == ()


def test_routes_are_made_by_name() -> None:
    for name in ROUTES:
        route = open_route(SimulatedSymbols(), RouteOptions(name))
        route.close()
        route.close()
    with pytest.raises(DeviceError, match=f"no route is called 'coreml'; there are {', '.join(ROUTES)}"):
        open_route(SimulatedSymbols(), RouteOptions("coreml"))


@pytest.mark.parametrize("error", [
    DeviceError("plain"), DeviceUnavailable("nothing", "a remedy"), DeviceRejected("m", ["a", "b"]),
    SubmitFailed("m", domain="d", code=29, text="t"), DeviceHung("m", 2.5, text="gone"),
    DeviceChanged("i", expected="a", found="b"), BudgetExhausted("r", limit=3, used=3, remedy="wait"),
    UnsupportedError("op", "rule", limit=1, found=2, remedy="r"),
])
def test_errors_travel_whole(error: DeviceError) -> None:
    again = received_error(error_state(error))
    assert type(again) is type(error)
    assert (str(again), vars(again)) == (str(error), vars(error))


def test_a_defect_travels_with_its_traceback() -> None:
    try:
        raise ZeroDivisionError("a defect")
    except ZeroDivisionError as error:
        again = received_error(error_state(error))
    assert type(again) is DeviceError
    assert "the worker failed" in str(again)
    assert "test_a_defect_travels" in str(again)
