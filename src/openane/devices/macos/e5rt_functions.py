"""The C functions of Espresso's graph runtime (`e5rt_*`) that this package calls: their prototypes, calls and releases.

Each gives a signed 64-bit error code, 0 for success. An object is an opaque pointer: `create` and `alloc` write it
through their first argument, `compile`, `retain` and getters through their last; `release` takes the address of the
pointer. The interface is not documented. Source: one public project that recovered and uses it on macOS 26.5 (M5 Pro
and M1 Max); that callers may ask `e5rt_get_last_error_message`, a C string, is inferred from system programs that do.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any

from openane.devices.macos.symbols import ESPRESSO, RuntimeSymbols
from openane.errors import DeviceChanged

POINTER = ctypes.c_void_p
ADDRESS = ctypes.POINTER(POINTER)
_TEXT, _FLAG, _WORD, _KIND = ctypes.c_char_p, ctypes.c_int, ctypes.c_uint64, ctypes.c_uint32

CONFIG = "e5rt_e5_compiler_config_options_"
COMPILER = "e5rt_e5_compiler_"
OPTIONS = "e5rt_e5_compiler_options_"
LIBRARY = "e5rt_program_library_"
FUNCTION = "e5rt_program_function_"
OPERATION_OPTIONS = "e5rt_precompiled_compute_op_create_options_"
OPERATION = "e5rt_execution_stream_operation_"
PORT = "e5rt_io_port_"
BUFFER = "e5rt_buffer_object_"
STREAM = "e5rt_execution_stream_"
LAST_ERROR = "e5rt_get_last_error_message"

PROTOTYPES: Mapping[str, tuple[Any, ...]] = {
    f"{CONFIG}create": (ADDRESS,),
    f"{CONFIG}set_cache_bundle_location": (POINTER, _TEXT),
    f"{COMPILER}create_with_config": (ADDRESS, POINTER),
    f"{OPTIONS}create": (ADDRESS,),
    f"{OPTIONS}set_compute_device_types_mask": (POINTER, _WORD),
    f"{OPTIONS}set_force_recompilation": (POINTER, _FLAG),
    f"{OPTIONS}set_segmenter": (POINTER, _TEXT),
    f"{COMPILER}compile": (POINTER, _TEXT, POINTER, ADDRESS),
    f"{LIBRARY}retain_program_function": (POINTER, _TEXT, ADDRESS),
    f"{OPERATION_OPTIONS}create_with_program_function": (ADDRESS, POINTER),
    f"{OPERATION_OPTIONS}set_operation_name": (POINTER, _TEXT),
    f"{OPERATION_OPTIONS}set_allocate_intermediate_buffers": (POINTER, _FLAG),
    f"{OPERATION}create_precompiled_compute_operation_with_options": (ADDRESS, POINTER),
    f"{OPERATION}retain_input_port": (POINTER, _TEXT, ADDRESS),
    f"{OPERATION}retain_output_port": (POINTER, _TEXT, ADDRESS),
    f"{PORT}bind_buffer_object": (POINTER, POINTER),
    f"{BUFFER}alloc": (ADDRESS, _WORD, _KIND),
    f"{BUFFER}get_data_ptr": (POINTER, ADDRESS),
    f"{STREAM}create": (ADDRESS,),
    f"{STREAM}encode_operation": (POINTER, POINTER),
    f"{STREAM}execute_sync": (POINTER,),
    **{f"{kind}release": (ADDRESS,) for kind in (CONFIG, COMPILER, OPTIONS, LIBRARY, FUNCTION, OPERATION_OPTIONS,
                                                 OPERATION, PORT, BUFFER, STREAM)},
}
"""Functions every run needs, by name: types of the arguments."""

CUSTOM_OPTIONS = f"{OPTIONS}set_custom_ane_compiler_options"
OPTIONAL: Mapping[str, tuple[Any, ...]] = {CUSTOM_OPTIONS: (POINTER, _TEXT)}
"""Functions that are used where the system has them."""

Out = Any
"""What `ctypes.byref` gives for an out-pointer."""


class CallFailed(Exception):
    """A function that gave an error code. Callers turn it into an error of the package."""

    def __init__(self, function: str, code: int, text: str) -> None:
        self.function, self.code, self.text = function, code, text
        super().__init__(f"{function} gives {code}: {text or 'no text was given'}")


class E5Functions:
    """The functions behind `symbols`."""

    def __init__(self, symbols: RuntimeSymbols) -> None:
        """DeviceUnavailable where the library is missing, DeviceChanged naming the functions it does not have."""
        symbols.load(ESPRESSO)
        self._calls: dict[str, Callable[..., int]] = {}
        missing = []
        for name, arguments in {**PROTOTYPES, **OPTIONAL}.items():
            try:
                address = symbols.function(ESPRESSO, name)
            except KeyError:
                if name in PROTOTYPES:
                    missing.append(name)
                continue
            self._calls[name] = ctypes.CFUNCTYPE(ctypes.c_int64, *arguments)(address)
        if missing:
            raise DeviceChanged("the graph runtime of Espresso", expected=f"{len(PROTOTYPES)} functions",
                                found=f"no {', '.join(missing)}")
        self._text = _message(symbols)

    def has(self, name: str) -> bool:
        """Whether the system has a function of `OPTIONAL`."""
        return name in self._calls

    def call(self, name: str, *arguments: Any) -> None:
        """Calls a function. CallFailed with its code and the runtime's text."""
        code = int(self._calls[name](*arguments))
        if code:
            raise CallFailed(name, code, self._text())

    def obtain(self, held: ExitStack, kind: str, fill: Callable[[Out], None]) -> POINTER:
        """An object `fill` writes through the out-pointer it is given; `held` releases it in the end. CallFailed when
        it gives none."""
        pointer = POINTER(0)
        fill(ctypes.byref(pointer))
        if not pointer.value:
            raise CallFailed(f"{kind}create", 0, "it gives no object")
        held.callback(self._calls[f"{kind}release"], ctypes.byref(pointer))
        return pointer

    def create(self, held: ExitStack, kind: str, name: str, *arguments: Any) -> POINTER:
        """An object of a function with the out-pointer first."""
        return self.obtain(held, kind, lambda out: self.call(name, out, *arguments))

    def retain(self, held: ExitStack, kind: str, name: str, *arguments: Any) -> POINTER:
        """An object of a function with the out-pointer last."""
        return self.obtain(held, kind, lambda out: self.call(name, *arguments, out))


def _message(symbols: RuntimeSymbols) -> Callable[[], str]:
    """How to ask for the text of the last error; without the function there is none."""
    try:
        address = symbols.function(ESPRESSO, LAST_ERROR)
    except KeyError:
        return lambda: ""
    ask = ctypes.CFUNCTYPE(ctypes.c_char_p)(address)
    return lambda: (ask() or b"").decode("utf-8", "replace")
