"""The stand-in's graph runtime (e5rt): where out-pointers are, in which order things are called, who keeps what."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest
from support.standin import Client, weighted_sum

from openane.devices.macos.standin import e5

OPERATION_OPTIONS = "precompiled_compute_op_create_options"
P = ctypes.c_void_p


class Graph(Client):
    """A client of the graph runtime; every object it makes is kept by kind in `made`."""

    def prepare(self, folder: Path) -> None:
        """Everything up to the operation."""
        program = weighted_sum()
        (folder / "weights").mkdir()
        (folder / "weights" / "weight.bin").write_bytes(*program.weights.values())
        (folder / "model.mil").write_text(program.text)
        self.made: dict[str, P] = {}
        self.create("e5_compiler_config_options", "e5_compiler_config_options_create")
        self.done("e5_compiler_config_options_set_cache_bundle_location", "^*", self["e5_compiler_config_options"],
                  str(folder).encode())
        self.create("e5_compiler", "e5_compiler_create_with_config", self["e5_compiler_config_options"])
        self.create("e5_compiler_options", "e5_compiler_options_create")
        self.done("e5_compiler_options_set_compute_device_types_mask", "^Q", self["e5_compiler_options"], 4)
        library = self.pointer("program_library")
        self.done("e5_compiler_compile", "^*^^", self["e5_compiler"], str(folder / "model.mil").encode(),
                  self["e5_compiler_options"], library)
        self.done("program_library_retain_program_function", "^*^", self["program_library"], b"main",
                  self.pointer("program_function"))
        self.create(OPERATION_OPTIONS, f"{OPERATION_OPTIONS}_create_with_program_function", self["program_function"])
        self.done(f"{OPERATION_OPTIONS}_set_operation_name", "^*", self[OPERATION_OPTIONS], b"main")
        self.done(f"{OPERATION_OPTIONS}_set_allocate_intermediate_buffers", "^i", self[OPERATION_OPTIONS], 1)
        self.create("execution_stream_operation", "execution_stream_operation_create_precompiled_compute_operation_"
                                                  "with_options", self[OPERATION_OPTIONS])
        self.create("execution_stream", "execution_stream_create")
        self.arrays: dict[str, np.ndarray] = {}

    def bind(self, name: str, side: str = "input") -> None:
        """A port with a buffer."""
        operation, port, buffer = self["execution_stream_operation"], f"io_port {name}", f"buffer_object {name}"
        self.done(f"execution_stream_operation_retain_{side}_port", "^*^", operation, name.encode(), self.pointer(port))
        self.done("buffer_object_alloc", "^QI", self.pointer(buffer), 64, 0)
        address = P()
        self.done("buffer_object_get_data_ptr", "^^", self[buffer], ctypes.addressof(address))
        self.done("io_port_bind_buffer_object", "^^", self[port], self[buffer])
        memory = (ctypes.c_uint16 * 24).from_address(address.value or 0)
        self.arrays[name] = np.ctypeslib.as_array(memory).view(np.float16).reshape(3, 8)

    def __getitem__(self, kind: str) -> int:
        return self.made[kind].value or 0

    def pointer(self, kind: str) -> int:
        """Where an object of a kind will be written."""
        self.made[kind] = P()
        return ctypes.addressof(self.made[kind])

    def create(self, kind: str, name: str, *arguments: int) -> None:
        """An object of a function with the out-pointer first."""
        self.done(name, "^" + "^" * len(arguments), self.pointer(kind), *arguments)

    def done(self, name: str, types: str, *arguments: object) -> None:
        """A call that must succeed."""
        assert self.e5(name, types, *arguments) == 0, self.reason()

    def reason(self) -> str:
        """The text of the last error."""
        return str(self.call("Espresso", "e5rt_get_last_error_message", "*").decode())

    def release_all(self, backwards: bool = True) -> None:
        """Releases everything; pointers are cleared."""
        self.arrays.clear()
        for kind in list(self.made)[::-1 if backwards else 1]:
            self.done(f"{kind.partition(' ')[0]}_release", "^", ctypes.addressof(self.made[kind]))
            assert self.made[kind].value is None


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    client = Graph()
    client.prepare(tmp_path)
    return client


@pytest.mark.parametrize("backwards", [True, False])
def test_a_program_runs_by_the_names_of_its_ports(graph: Graph, backwards: bool) -> None:
    for name in "bca":
        graph.bind(name)
    graph.bind("y", "output")
    graph.done("execution_stream_encode_operation", "^^", graph["execution_stream"],
               graph["execution_stream_operation"])
    for seed in range(3):
        a, b, c = np.random.default_rng(seed).integers(-8, 8, (3, 3, 8)).astype(np.float16)
        for name, values in zip("abc", (a, b, c), strict=True):
            graph.arrays[name][...] = values
        graph.done("execution_stream_execute_sync", "^", graph["execution_stream"])
        assert np.array_equal(graph.arrays["y"], a * b - c + np.arange(8, dtype=np.float16))
    graph.release_all(backwards)
    assert graph.symbols.problems() == ()


def test_what_is_out_of_order_fails(graph: Graph) -> None:
    stream, operation = graph["execution_stream"], graph["execution_stream_operation"]

    def fails(name: str, types: str, *arguments: object) -> str:
        assert graph.e5(name, types, *arguments) != 0
        return graph.reason()

    assert "nothing is encoded" in fails("execution_stream_execute_sync", "^", stream)
    assert "never used" in fails("execution_stream_reset", "^", stream)
    assert "port a has no buffer" in fails("execution_stream_encode_operation", "^^", stream, operation)
    for name in "abc":
        graph.bind(name)
    graph.bind("y", "output")
    graph.done("execution_stream_encode_operation", "^^", stream, operation)
    assert "not prepared again" in fails("execution_stream_encode_operation", "^^", stream, operation)
    assert "cannot be bound" in fails("io_port_bind_buffer_object", "^^", graph["io_port a"], graph["buffer_object b"])
    assert "was not reset" in fails("execution_stream_operation_prepare_op_for_encode", "^", operation)
    graph.done("execution_stream_reset", "^", stream)
    graph.done("execution_stream_operation_prepare_op_for_encode", "^", operation)
    graph.done("execution_stream_encode_operation", "^^", stream, operation)
    graph.done("execution_stream_execute_sync", "^", stream)
    graph.release_all()
    assert graph.symbols.problems() == ()


def test_arguments_are_checked(graph: Graph) -> None:
    out = P()
    operation, place = graph["execution_stream_operation"], ctypes.addressof(out)
    assert graph.e5("execution_stream_operation_retain_input_port", "^*^", operation, b"y", place) != 0
    assert "no port b'y' among the inputs" in graph.reason()
    assert graph.e5("buffer_object_alloc", "^QI", place, 64, 3) != 0
    assert "Invalid BufferType" in graph.reason()
    assert graph.e5("e5_compiler_create_with_config", "^^", graph["e5_compiler_config_options"], place) != 0
    assert graph.e5("execution_stream_release", "^", ctypes.addressof(graph.made["e5_compiler"])) != 0
    assert "is a compiler, not a stream" in graph.reason()
    graph.done("buffer_object_alloc", "^QI", graph.pointer("buffer_object small"), 32, 0)
    graph.done("execution_stream_operation_retain_input_port", "^*^", operation, b"a", graph.pointer("io_port a"))
    assert graph.e5("io_port_bind_buffer_object", "^^", graph["io_port a"], graph["buffer_object small"]) != 0
    graph.release_all()
    assert graph.symbols.problems() == ()


def test_leaks_and_mixed_devices_are_reported(graph: Graph) -> None:
    assert len(e5.leaks(graph.runtime)) == len(graph.made)
    out = P()
    graph.done("e5_compiler_options_set_compute_device_types_mask", "^Q", graph["e5_compiler_options"], 7)
    assert graph.e5("e5_compiler_compile", "^*^^", graph["e5_compiler"], b"/nowhere/model.mil",
                    graph["e5_compiler_options"], ctypes.addressof(out)) != 0
    assert "Invalid path" in graph.reason()
    assert out.value is None
    graph.release_all()
    assert [text.partition(":")[0] for text in graph.symbols.problems()] == ["compiled for devices 7"]
