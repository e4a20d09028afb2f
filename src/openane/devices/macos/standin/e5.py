"""The C interface of Espresso's graph runtime (`e5rt_*`): compile a MIL file, bind named ports, encode, execute.

Every function gives an error code, 0 for success. `create` and `alloc` have their out-pointer first, `compile`,
`retain` and getters last; `release` takes the address of the pointer and clears it. An object keeps what it was made
of, so that everything can be released in any order. What is called out of order fails with a code and a text. Codes are
inferred: the sources say only that they are not 0.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

import numpy as np

from openane.devices.macos.standin.models import Compiled, Refused, StandinPort, compile_text
from openane.devices.macos.standin.running import MODEL_PATH, disturb, injected_failure
from openane.devices.macos.standin.runtime import Runtime
from openane.devices.macos.standin.surfaces import POINTER, CFunction
from openane.graph import numpy_type
from openane.record_classes import dataclass

BAD_ARGUMENT, OUT_OF_ORDER, COMPILATION, EXECUTION = 1, 2, 11, 13
ENGINE_MASK = 4
HIGHEST_BUFFER_TYPE = 2
LARGEST_BUFFER = 2**31
SEGMENTERS = ("graph",)


@dataclass(slots=True, eq=False)
class Object:
    """Any object of the interface. `owners` counts its own reference and the objects made of it."""

    kind: str
    fields: dict[str, Any] = field(default_factory=dict)
    parents: list[Object] = field(default_factory=list)
    owners: int = 1


class Failure(Exception):
    """A call that gives an error code."""

    def __init__(self, code: int, text: str) -> None:
        self.code = code
        super().__init__(text)


def objects(runtime: Runtime) -> dict[int, Object]:
    """The live objects by address."""
    return runtime.e5_objects


def leaks(runtime: Runtime) -> tuple[str, ...]:
    """Objects nobody released, one sentence each."""
    return tuple(f"e5rt {each.kind} {handle:#x} was never released" for handle, each in objects(runtime).items())


def _find(runtime: Runtime, handle: int, kind: str) -> Object:
    found = objects(runtime).get(handle)
    if found is None:
        raise Failure(BAD_ARGUMENT, f"{handle:#x} is no {kind}" if handle else f"{kind} is nullptr")
    if found.kind != kind:
        raise Failure(BAD_ARGUMENT, f"{handle:#x} is a {found.kind}, not a {kind}")
    return found


def _new(runtime: Runtime, out: int, kind: str, *parents: Object, **fields: Any) -> None:
    if not out:
        raise Failure(BAD_ARGUMENT, "the out-pointer is nullptr")
    runtime.e5_count += 1
    handle = 0x700000000010 + 64 * runtime.e5_count
    for each in parents:
        each.owners += 1
    objects(runtime)[handle] = Object(kind, fields, list(parents))
    POINTER.from_address(out).value = handle


def _release(kind: str) -> Callable[[Runtime, int], None]:
    def release(runtime: Runtime, place: int) -> None:
        if not place:
            raise Failure(BAD_ARGUMENT, "release takes the address of the pointer")
        pointer = POINTER.from_address(place)
        found = _find(runtime, pointer.value, kind)
        del objects(runtime)[pointer.value]
        _let_go(found)
        pointer.value = 0
    return release


def _let_go(found: Object) -> None:
    found.owners -= 1
    if not found.owners:
        for each in found.parents:
            _let_go(each)
        found.fields.clear()


def _set(kind: str, name: str, check: Callable[[Any], bool] = lambda value: True) -> Callable[..., None]:
    def put(runtime: Runtime, handle: int, value: Any) -> None:
        found = _find(runtime, handle, kind)
        if isinstance(value, bytes):
            value = value.decode()
        if value is None or not check(value):
            raise Failure(BAD_ARGUMENT, f"{name} cannot be {value!r}")
        found.fields[name] = value
    return put


def _compiler(runtime: Runtime, out: int, config: int) -> None:
    given = _find(runtime, config, "compiler config options")
    if "cache" not in given.fields:
        raise Failure(OUT_OF_ORDER, "the cache bundle location is not set")
    _new(runtime, out, "compiler", given)


def _compile(runtime: Runtime, compiler: int, path: bytes | None, options: int, out: int) -> None:
    _find(runtime, compiler, "compiler")
    chosen = _find(runtime, options, "compiler options").fields
    disturb(runtime, "compile")
    if not out or not path:
        raise Failure(BAD_ARGUMENT, "the path or the out-pointer is nullptr")
    if chosen.get("mask") != ENGINE_MASK:
        runtime.problem(f"compiled for devices {chosen.get('mask')}: only mask {ENGINE_MASK} proves the engine")
    if runtime.compiles >= runtime.faults.budget or runtime.faults.compile:
        raise Failure(COMPILATION, "ANECCompile() FAILED")
    runtime.compiles += 1
    file = Path(path.decode())
    try:
        text = file.read_bytes()
        weights = {f"{MODEL_PATH}{each.relative_to(file.parent)}": each.read_bytes()
                   for each in file.parent.rglob("*.bin") if each.is_file()}
        compiled = compile_text(text, weights, runtime.faults.row_alignment)
    except OSError as error:
        raise Failure(COMPILATION, f"Invalid path specified: {error}") from None
    except Refused as refused:
        raise Failure(COMPILATION, refused.reason) from None
    _new(runtime, out, "program library", compiled=compiled)


def _function(runtime: Runtime, library: int, name: bytes | None, out: int) -> None:
    found = _find(runtime, library, "program library")
    compiled: Compiled = found.fields["compiled"]
    if name is None or name.decode() != compiled.graph.name:
        raise Failure(BAD_ARGUMENT, f"there is no function {name!r}")
    _new(runtime, out, "program function", found, compiled=compiled)


def _operation_options(runtime: Runtime, out: int, function: int) -> None:
    found = _find(runtime, function, "program function")
    _new(runtime, out, "operation options", found, compiled=found.fields["compiled"])


def _operation(runtime: Runtime, out: int, options: int) -> None:
    found = _find(runtime, options, "operation options")
    if not found.fields.get("name"):
        raise Failure(OUT_OF_ORDER, "the operation has no name")
    disturb(runtime, "load")
    if runtime.faults.load:
        raise Failure(COMPILATION, "the program could not be loaded")
    _new(runtime, out, "operation", found, compiled=found.fields["compiled"], bound={}, stream=None,
         memory=bool(found.fields.get("intermediates")), ready=True)


def _port(side: str) -> Callable[..., None]:
    def retain(runtime: Runtime, operation: int, name: bytes | None, out: int) -> None:
        found = _find(runtime, operation, "operation")
        ports: tuple[StandinPort, ...] = getattr(found.fields["compiled"], side)
        port = next((each for each in ports if name is not None and each.name == name.decode()), None)
        if port is None:
            raise Failure(BAD_ARGUMENT, f"there is no port {name!r} among the {side}")
        _new(runtime, out, "port", found, port=port, operation=found)
    return retain


def _allocate(runtime: Runtime, out: int, size: int, kind: int) -> None:
    if kind > HIGHEST_BUFFER_TYPE:
        raise Failure(BAD_ARGUMENT, "Invalid BufferType @ AllocMemory")
    if not 0 < size <= LARGEST_BUFFER:
        raise Failure(BAD_ARGUMENT, f"a buffer of {size} bytes")
    _new(runtime, out, "buffer", memory=np.zeros(size, np.uint8))


def _data(runtime: Runtime, buffer: int, out: int) -> None:
    POINTER.from_address(out).value = _find(runtime, buffer, "buffer").fields["memory"].ctypes.data


def _size(runtime: Runtime, buffer: int, out: int) -> None:
    ctypes.c_uint64.from_address(out).value = _find(runtime, buffer, "buffer").fields["memory"].size


def _bind(runtime: Runtime, port: int, buffer: int) -> None:
    found, memory = _find(runtime, port, "port"), _find(runtime, buffer, "buffer")
    operation: Object = found.fields["operation"]
    known: StandinPort = found.fields["port"]
    if operation.fields["stream"] is not None:
        raise Failure(OUT_OF_ORDER, "the operation is encoded; its ports cannot be bound any more")
    if memory.fields["memory"].size < known.packed_size:
        raise Failure(BAD_ARGUMENT, f"port {known.name} takes {known.packed_size} bytes")
    memory.owners += 1
    found.parents.append(memory)
    operation.fields["bound"][known.name] = memory.fields["memory"]


def _encode(runtime: Runtime, stream: int, operation: int) -> None:
    into, found = _find(runtime, stream, "stream"), _find(runtime, operation, "operation")
    compiled: Compiled = found.fields["compiled"]
    if not found.fields["ready"]:
        raise Failure(OUT_OF_ORDER, "the operation is encoded and was not prepared again")
    unbound = [each.name for each in (*compiled.inputs, *compiled.outputs) if each.name not in found.fields["bound"]]
    if unbound:
        raise Failure(OUT_OF_ORDER, f"port {unbound[0]} has no buffer")
    if not found.fields["memory"]:
        raise Failure(OUT_OF_ORDER, "the intermediate buffers are not allocated")
    found.fields.update(ready=False, stream=into)
    found.owners += 1
    into.parents.append(found)
    into.fields["operations"].append(found)


def _reset(runtime: Runtime, stream: int) -> None:
    found = _find(runtime, stream, "stream")
    if not found.fields["operations"]:
        raise Failure(OUT_OF_ORDER, "the stream was never used")
    for each in found.fields["operations"]:
        found.parents.remove(each)
        each.fields["stream"] = None
        _let_go(each)
    found.fields["operations"] = []


def _prepare(runtime: Runtime, operation: int) -> None:
    found = _find(runtime, operation, "operation")
    if found.fields["ready"] or found.fields["stream"] is not None:
        raise Failure(OUT_OF_ORDER, "the operation was not encoded, or its stream was not reset")
    found.fields["ready"] = True


def _execute(runtime: Runtime, stream: int) -> None:
    operations = _find(runtime, stream, "stream").fields["operations"]
    if not operations:
        raise Failure(OUT_OF_ORDER, "nothing is encoded")
    status = injected_failure(runtime)
    if status:
        raise Failure(EXECUTION, f"ANEProgramProcessRequestDirect() Failed with status={status:#x} : "
                                 "Program Inference error")
    for operation in operations:
        compiled, bound = operation.fields["compiled"], operation.fields["bound"]
        results = compiled.run([_packed(port, bound) for port in compiled.inputs])
        for port, result in zip(compiled.outputs, results, strict=True):
            _packed(port, bound)[...] = result.reshape(port.shape)


def _packed(port: StandinPort, bound: Mapping[str, np.ndarray]) -> np.ndarray:
    """A port's tensor, without gaps, in its buffer."""
    return bound[port.name][:port.packed_size].view(numpy_type(port.dtype)).reshape(port.shape)


def _function_of(arguments: list[Any], call: Callable[..., None]) -> CFunction:
    """The C function: errors become codes, their text is kept for whoever asks."""
    def enter(runtime: Runtime, *given: Any) -> int:
        try:
            call(runtime, *given)
        except Failure as failure:
            runtime.e5_error = str(failure)
            return failure.code
        return 0
    return CFunction(ctypes.c_int64, arguments, enter)


_TEXT: Any = ctypes.c_char_p
_P, _PP, _PT = [POINTER], [POINTER, POINTER], [POINTER, _TEXT]
_OPTIONS = "e5rt_precompiled_compute_op_create_options_"

_CALLS: Mapping[str, tuple[list[Any], Callable[..., None]]] = {
    "e5rt_e5_compiler_config_options_create": (_P, lambda r, out: _new(r, out, "compiler config options")),
    "e5rt_e5_compiler_config_options_set_cache_bundle_location": (_PT, _set("compiler config options", "cache", bool)),
    "e5rt_e5_compiler_create_with_config": (_PP, _compiler),
    "e5rt_e5_compiler_options_create": (_P, lambda r, out: _new(r, out, "compiler options")),
    "e5rt_e5_compiler_options_set_compute_device_types_mask": (
        [POINTER, ctypes.c_uint64], _set("compiler options", "mask", lambda value: 0 < value < 8)),
    "e5rt_e5_compiler_options_set_force_recompilation": ([POINTER, ctypes.c_int], _set("compiler options", "force")),
    "e5rt_e5_compiler_options_set_segmenter": (
        _PT, _set("compiler options", "segmenter", lambda value: value in SEGMENTERS)),
    "e5rt_e5_compiler_options_set_custom_ane_compiler_options": (_PT, _set("compiler options", "custom")),
    "e5rt_e5_compiler_compile": ([POINTER, _TEXT, POINTER, POINTER], _compile),
    "e5rt_program_library_retain_program_function": ([POINTER, _TEXT, POINTER], _function),
    f"{_OPTIONS}create_with_program_function": (_PP, _operation_options),
    f"{_OPTIONS}set_operation_name": (_PT, _set("operation options", "name", bool)),
    f"{_OPTIONS}set_allocate_intermediate_buffers": ([POINTER, ctypes.c_int], _set("operation options",
                                                                                   "intermediates")),
    "e5rt_execution_stream_operation_create_precompiled_compute_operation_with_options": (_PP, _operation),
    "e5rt_execution_stream_operation_retain_input_port": ([POINTER, _TEXT, POINTER], _port("inputs")),
    "e5rt_execution_stream_operation_retain_output_port": ([POINTER, _TEXT, POINTER], _port("outputs")),
    "e5rt_execution_stream_operation_prepare_op_for_encode": (_P, _prepare),
    "e5rt_io_port_bind_buffer_object": (_PP, _bind),
    "e5rt_buffer_object_alloc": ([POINTER, ctypes.c_uint64, ctypes.c_uint32], _allocate),
    "e5rt_buffer_object_get_data_ptr": (_PP, _data),
    "e5rt_buffer_object_get_size": (_PP, _size),
    "e5rt_execution_stream_create": (_P, lambda r, out: _new(r, out, "stream", operations=[])),
    "e5rt_execution_stream_encode_operation": (_PP, _encode),
    "e5rt_execution_stream_execute_sync": (_P, _execute),
    "e5rt_execution_stream_reset": (_P, _reset),
}

_RELEASES: Mapping[str, str] = {
    "e5rt_e5_compiler_config_options_release": "compiler config options",
    "e5rt_e5_compiler_release": "compiler",
    "e5rt_e5_compiler_options_release": "compiler options",
    "e5rt_program_library_release": "program library",
    "e5rt_program_function_release": "program function",
    f"{_OPTIONS}release": "operation options",
    "e5rt_execution_stream_operation_release": "operation",
    "e5rt_io_port_release": "port",
    "e5rt_buffer_object_release": "buffer",
    "e5rt_execution_stream_release": "stream",
}

FUNCTIONS: Mapping[str, CFunction] = {
    **{name: _function_of(arguments, call) for name, (arguments, call) in _CALLS.items()},
    **{name: _function_of(_P, _release(kind)) for name, kind in _RELEASES.items()},
    "e5rt_get_last_error_message": CFunction(POINTER, [], lambda runtime: runtime.text(runtime.e5_error)),
}
"""Every function, by the name Espresso exports it under."""
