"""The graph runtime route: a MIL file through the C interface of Espresso, ports by name, plain memory in and out.

config -> compiler -> options (engine only) -> compile -> function -> operation -> a buffer per port -> stream -> encode
once -> execute as often as wanted -> release in reverse. Nothing of Objective-C, no entitlement; neither the order nor
the sizes of ports matter (source: one public project). The interface is private and was checked on macOS 26 only, and
so it is refused elsewhere. It must not be used across a fork.
"""

from __future__ import annotations

import ctypes
import os
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from threading import Lock, RLock
from time import perf_counter
from uuid import uuid4

import numpy as np

from openane.devices.closing import every
from openane.devices.macos import e5rt_functions as api
from openane.devices.macos.directories import TEXT_FILE, ModelDirectory
from openane.devices.macos.e5rt_functions import POINTER, CallFailed, E5Functions
from openane.devices.macos.graph_program import GraphPort, GraphProgram
from openane.devices.macos.routes import COMPILATIONS, RouteOptions, RunFacts, compilations
from openane.devices.macos.symbols import RuntimeSymbols
from openane.errors import (
    DeviceError,
    DeviceRejected,
    DeviceUnavailable,
    SubmitFailed,
    UnsupportedError,
)
from openane.graph import numpy_type
from openane.rounding import ceil_div

VERIFIED = ("26",)
"""Major versions of macOS on which the interface is known."""
ENGINE = 4
"""Mask of compute devices: 1 is the processor, 2 the graphics processor, 4 the engine. With the engine alone nothing
can run elsewhere unseen."""
SEGMENTER = b"graph"
FUNCTION = b"main"
PLAIN_MEMORY = 0
"""Type of buffers."""
BUFFER_GRANULE = 64
DOMAIN = "e5rt"


class E5Route:
    """See `Route`."""

    def __init__(self, symbols: RuntimeSymbols, options: RouteOptions) -> None:
        """Loads Espresso and looks up its functions. DeviceUnavailable on a version of macOS nobody has checked."""
        platform = symbols.platform
        major = platform.version.partition(".")[0]
        if major not in VERIFIED:
            raise DeviceUnavailable(f"route e5rt is verified on macOS {', '.join(VERIFIED)}, and this is macOS "
                                    f"{platform.version or 'of no known version'}", "use route=memory")
        self.symbols, self.options = symbols, options
        self.functions = E5Functions(symbols)
        self.compilations = compilations(symbols)
        self._process = os.getpid()
        self._lock = RLock()
        self._programs: list[E5Program] = []

    def load(self, program: GraphProgram) -> E5Program:
        """See `Route.load`."""
        self.spend()
        made = E5Program(self, program)
        with self._lock:
            self._programs = [*(known for known in self._programs if not known.closed), made]
        return made

    def compile_for(self, program: GraphProgram, architecture: str) -> None:
        """Compiles for another generation ("h13") without loading. DeviceRejected with the compiler's text,
        UnsupportedError where the system has no option for it."""
        if not self.functions.has(api.CUSTOM_OPTIONS):
            raise UnsupportedError("compilation for another generation", f"this system has no {api.CUSTOM_OPTIONS}")
        self.spend()
        with ExitStack() as held:
            directory = self.directory(held, program)
            try:
                self.compiled(held, directory, f"TargetArchitecture={architecture}")
            except CallFailed as failed:
                raise DeviceRejected(f"model {program.name!r} for {architecture}", [str(failed)]) from None

    def close(self) -> None:
        """See `Route.close`."""
        with self._lock:
            programs, self._programs = self._programs, []
        every(program.close for program in programs)

    def spend(self) -> None:
        """Counts a compilation. BudgetExhausted beyond the limit."""
        self.require_process()
        with self._lock:
            self.compilations.take(COMPILATIONS)

    def require_process(self) -> None:
        """DeviceUnavailable in a process that was forked from the one the runtime was opened in."""
        if os.getpid() != self._process:
            raise DeviceUnavailable("the graph runtime was opened before this process was forked",
                                    "start processes with the 'spawn' method, or open the device after the fork")

    def directory(self, held: ExitStack, program: GraphProgram) -> Path:
        """A directory with the program's text and weights; `held` removes it."""
        path = Path(tempfile.gettempdir()) / f"openane-e5rt-{uuid4().hex}"
        self.options.noted(str(path))
        held.callback(ModelDirectory(path, program.text, program.weights).close)
        (path / "cache").mkdir(exist_ok=True)
        return path

    def compiled(self, held: ExitStack, directory: Path, custom: str = "") -> POINTER:
        """The program library of a directory. CallFailed with the compiler's text."""
        functions = self.functions
        with ExitStack() as temporary:
            config = functions.create(temporary, api.CONFIG, f"{api.CONFIG}create")
            functions.call(f"{api.CONFIG}set_cache_bundle_location", config, os.fsencode(directory / "cache"))
            compiler = functions.create(temporary, api.COMPILER, f"{api.COMPILER}create_with_config", config)
            options = functions.create(temporary, api.OPTIONS, f"{api.OPTIONS}create")
            functions.call(f"{api.OPTIONS}set_compute_device_types_mask", options, ENGINE)
            functions.call(f"{api.OPTIONS}set_force_recompilation", options, 1)
            functions.call(f"{api.OPTIONS}set_segmenter", options, SEGMENTER)
            if custom:
                functions.call(api.CUSTOM_OPTIONS, options, custom.encode())
            return functions.retain(held, api.LIBRARY, f"{api.COMPILER}compile", compiler,
                                    os.fsencode(directory / TEXT_FILE), options)


class E5Program:
    """See `LoadedGraph`. Runs of one program exclude each other: they share its buffers."""

    def __init__(self, route: E5Route, program: GraphProgram) -> None:
        """Compiles and loads. DeviceRejected with the runtime's text; nothing is left when it fails."""
        self.program = program
        self._route = route
        self._lock = Lock()
        self._buffers: dict[str, np.ndarray] = {}
        with ExitStack() as held:
            try:
                self._stream = self._loaded(held)
            except CallFailed as failed:
                self._buffers.clear()
                raise DeviceRejected(f"model {program.name!r}", [str(failed)]) from None
            self._held = held.pop_all()
        self.closed = False

    def run(self, inputs: Mapping[str, np.ndarray], outputs: Mapping[str, np.ndarray]) -> RunFacts:
        """See `LoadedGraph.run`."""
        self._route.require_process()
        with self._lock:
            if self.closed:
                raise DeviceError("the model is closed")
            for port in self.program.inputs:
                self._buffers[port.mil][...] = inputs[port.mil]
            start = perf_counter()
            try:
                self._route.functions.call(f"{api.STREAM}execute_sync", self._stream)
            except CallFailed as failed:
                raise SubmitFailed(f"a run of model {self.program.name!r}", domain=DOMAIN, code=failed.code,
                                   text=failed.text) from None
            seconds = perf_counter() - start
            for port in self.program.outputs:
                outputs[port.mil][...] = self._buffers[port.mil]
            who = "the stand-in of the graph runtime" if self._route.symbols.platform.simulated else "the neural engine"
            return RunFacts(seconds, f"{who}, and no other device")

    def close(self) -> None:
        """See `LoadedGraph.close`. In a forked process nothing is called: the objects are its parent's."""
        with self._lock:
            was_closed, self.closed = self.closed, True
        if was_closed:
            return
        self._route.require_process()
        self._buffers.clear()
        self._held.close()

    def _loaded(self, held: ExitStack) -> POINTER:
        """The stream with the encoded operation; the ports' memory is in `_buffers`."""
        functions, route = self._route.functions, self._route
        library = route.compiled(held, route.directory(held, self.program))
        function = functions.retain(held, api.FUNCTION, f"{api.LIBRARY}retain_program_function", library, FUNCTION)
        options = functions.create(held, api.OPERATION_OPTIONS,
                                   f"{api.OPERATION_OPTIONS}create_with_program_function", function)
        functions.call(f"{api.OPERATION_OPTIONS}set_operation_name", options, FUNCTION)
        functions.call(f"{api.OPERATION_OPTIONS}set_allocate_intermediate_buffers", options, 1)
        operation = functions.create(held, api.OPERATION,
                                     f"{api.OPERATION}create_precompiled_compute_operation_with_options", options)
        for side, ports in (("input", self.program.inputs), ("output", self.program.outputs)):
            for port in ports:
                self._buffers[port.mil] = self._bound(held, operation, side, port)
        stream = functions.create(held, api.STREAM, f"{api.STREAM}create")
        functions.call(f"{api.STREAM}encode_operation", stream, operation)
        return stream

    def _bound(self, held: ExitStack, operation: POINTER, side: str, port: GraphPort) -> np.ndarray:
        """The memory of a port, packed, bound to it."""
        functions = self._route.functions
        handle = functions.retain(held, api.PORT, f"{api.OPERATION}retain_{side}_port", operation, port.mil.encode())
        dtype = numpy_type(port.element)
        count = int(np.prod(port.shape, dtype=np.int64))
        size = max(1, ceil_div(count * dtype.itemsize, BUFFER_GRANULE)) * BUFFER_GRANULE
        buffer = functions.create(held, api.BUFFER, f"{api.BUFFER}alloc", size, PLAIN_MEMORY)
        address = POINTER(0)
        functions.call(f"{api.BUFFER}get_data_ptr", buffer, ctypes.byref(address))
        if not address.value:
            raise CallFailed(f"{api.BUFFER}get_data_ptr", 0, "it gives no address")
        memory = memoryview((ctypes.c_uint8 * size).from_address(address.value)).cast("B")
        ctypes.memset(address, 0, size)
        functions.call(f"{api.PORT}bind_buffer_object", handle, buffer)
        return np.frombuffer(memory, np.uint8)[:count * dtype.itemsize].view(dtype).reshape(port.shape)
