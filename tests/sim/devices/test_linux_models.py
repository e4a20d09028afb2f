"""Models on the Linux backend over a simulated driver: bit for bit what the simulator computes, by another string."""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
from support.linux_kernels import CountingKernel, IdleKernel
from support.verifier_programs import base_programs

import openane as ane
from openane.compiler import Model, compile_functions
from openane.devices.linux.device import LinuxDevice
from openane.devices.packer import NUMPY, logical_shape
from openane.devices.simdriver import SimDriver, SimKernel
from openane.formats import load_program
from openane.graph import Graph, numpy_type
from openane.graph.mil import parse_mil
from openane.ops.build import GraphBuilder
from openane.program import Program

EXAMPLES = Path(__file__).parents[3] / "examples"
LINUX = "linux?driver=simulated"
T = "tensor<fp16, [1, 8, 1, 16]>"
ONES = np.ones((1, 8, 1, 16), np.float16)
RNG = np.random.default_rng(3)


def single(op: str, shape: tuple[int, ...], **operands: object) -> Graph:
    builder = GraphBuilder()
    return builder.finish({"y": builder.single(op, x=builder.input("x", "fp16", shape), **operands)})


def product() -> Graph:
    builder = GraphBuilder()
    x, y = builder.input("x", "fp16", (2, 24, 40)), builder.input("y", "fp16", (2, 40, 17))
    return builder.finish({"z": builder.single("matmul", x=x, y=y)})


def elementwise() -> Graph:
    builder = GraphBuilder()
    x, y = builder.input("x", "fp16", (3, 5, 33)), builder.input("y", "fp32", (3, 1, 33))
    both = builder.single("mul", x=builder.single("add", x=x, y=builder.single("cast", x=y, dtype="fp16")), y=x)
    return builder.finish({"z": builder.single("tanh", x=both), "product": both})


def transformer_block() -> Graph:
    """Layer norm, attention of two heads, a residual, a feed-forward part."""
    builder, shape, width, heads = GraphBuilder(), (1, 12, 32), 32, 2
    add = builder.single

    def linear(x, rows):  # type: ignore[no-untyped-def]
        return add("linear", x=x, weight=RNG.standard_normal((rows, x.shape[-1])) / 6, bias=RNG.standard_normal(rows))

    def split(x):  # type: ignore[no-untyped-def]
        return add("transpose", x=add("reshape", x=x, shape=[1, 12, heads, width // heads]), perm=[0, 2, 1, 3])

    x = builder.input("x", "fp16", shape)
    norm = add("layer_norm", x=x, axes=[-1], epsilon=1e-3, gamma=np.ones(width), beta=np.zeros(width))
    mixed = add("scaled_dot_product_attention", **{name: split(linear(norm, width)) for name in
                                                   ("query", "key", "value")})
    x = add("add", x=x, y=linear(add("reshape", x=add("transpose", x=mixed, perm=[0, 2, 1, 3]), shape=shape), width))
    return builder.finish({"y": add("add", x=x, y=linear(add("gelu", x=linear(x, 64), mode="EXACT"), width))})


def on_the_host() -> Graph:
    """Two programs with a step on the host between them."""
    builder = GraphBuilder()
    x, rows = builder.input("x", "fp16", (8, 16)), builder.input("rows", "int32", (3,))
    chosen = builder.single("gather", x=builder.single("exp", x=x), indices=rows, axis=0)
    return builder.finish({"z": builder.single("relu", x=chosen)})


MODELS: dict[str, Callable[[], Graph]] = {
    "elementwise": elementwise, "matmul": product, "transformer": transformer_block,
    "conv": lambda: single("conv", (1, 20, 14, 14), weight=RNG.standard_normal((24, 20, 3, 3)) / 13, pad_type="same"),
    "softmax": lambda: single("softmax", (2, 5, 70), axis=-1),
    "layer_norm": lambda: single("layer_norm", (2, 6, 48), axes=[-1], epsilon=1e-3, gamma=RNG.standard_normal(48),
                                 beta=RNG.standard_normal(48)),
    "digits": lambda: ane.load_graph(EXAMPLES / "digits" / "digits.onnx"),
}


def draw(model: Model) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(5)
    return {port.name: rng.uniform(-2, 2, port.shape).astype(numpy_type(port.dtype)) for port in model.inputs}


def same(subject: Model | Program, inputs: Mapping[str, np.ndarray], *devices: str) -> None:
    """Every device gives the simulator's bytes, twice in a row."""
    wanted = ane.run(subject, inputs, "simulator")
    assert wanted
    for name in devices or (LINUX, f"{LINUX}&mode=faithful"):
        with ane.open_device(name) as device, device.load(subject) as executable:
            for _ in range(2):
                found = executable.run(inputs)
                assert {key: (value.dtype, value.shape, value.tobytes()) for key, value in found.items()} == \
                    {key: (value.dtype, value.shape, value.tobytes()) for key, value in wanted.items()}
            assert executable.report.tasks == ()
            assert executable.report.seconds > 0


@pytest.mark.parametrize("name", MODELS)
def test_the_simulators_outputs(name: str) -> None:
    model = ane.compile(MODELS[name]())
    assert not model.host_operations
    same(model, draw(model))


@pytest.mark.parametrize("arithmetic", ["exact", "fast"])
def test_the_arithmetic_can_be_chosen(arithmetic: str) -> None:
    model = ane.compile(MODELS["conv"]())
    inputs = draw(model)
    found = ane.run(model, inputs, f"{LINUX}&timeout=60&arithmetic={arithmetic}")["y"]
    assert found.tobytes() == ane.run(model, inputs, f"simulator?arithmetic={arithmetic}")["y"].tobytes()


@pytest.mark.parametrize("name", ["add", "softmax"])
def test_programs_of_apples_compiler(corpus: Path, name: str) -> None:
    path = corpus / "apple" / "anec" / f"{name}.anec"
    if not path.is_file():
        pytest.skip(f"{path.name} is not in the corpus")
    program = load_program(path)
    rng = np.random.default_rng(7)
    shapes = {buffer.name: buffer.layout.shape for buffer in program.inputs if buffer.layout}
    same(program, {key: rng.standard_normal(shape, np.float32).astype(np.float16) for key, shape in shapes.items()},
         LINUX)


def test_steps_on_the_host() -> None:
    model = ane.compile(on_the_host(), allow_host=True)
    assert model.host_operations
    assert len(model.programs) > 1
    same(model, draw(model))


def function(name: str, last: str) -> Graph:
    return parse_mil(f"""program(1.3)
{{
  func {name}<ios18>({T} x, state<{T}> total) {{
    {T} old = read_state(input = total)[name = string("old")];
    {T} new = {last};
    write_state(data = new, input = total)[name = string("w")];
    {T} y = add(x = new, y = new)[name = string("y")];
  }} -> (y);
}}
""")


def test_functions_share_states() -> None:
    model = compile_functions([function("sum", 'add(x = old, y = x)[name = string("new")]'),
                               function("product", 'mul(x = old, y = x)[name = string("new")]')])
    for name in ("simulator", LINUX):
        with ane.open_device(name) as device, device.load(model) as executable:
            found = [float(executable.run({"x": ONES * k}, which)["y"].max()) for k, which in
                     ((3, None), (2, "product"), (1, "sum"), (4, "product"))]
            assert found == [6, 12, 14, 56]
            assert (executable.read("total") == 28).all()
            executable.write("total", np.full((1, 16), 5.0), (0, 2))
            assert executable.run({"x": ONES}, "sum")["y"][0, :3, 0, 0].tolist() == [58, 58, 12]


def test_two_models_share_memory_and_submissions_keep_their_order() -> None:
    first, second = (ane.compile(single(op, (1, 8, 1, 16))) for op in ("square", "relu"))
    with ane.open_device(LINUX) as device, device.load(first) as one, device.load(second) as two:
        memory = device.allocate(max(port.layout.size for port in (*first.outputs, *second.inputs)))
        one.bind("y", memory)
        two.bind("x", memory)
        one.run({"x": ONES * -3})
        assert (two.read("x") == 9).all()
        assert (memory.view(np.float16)[:16] == 9).all()
        waiting = [one.submit({"x": ONES * k}) for k in range(6)]
        assert [float(each.result()["y"].max()) for each in waiting] == [0, 1, 4, 9, 16, 25]


def test_nothing_is_reported_or_left_behind() -> None:
    with SimDriver("strict") as driver:
        model = ane.compile(MODELS["transformer"]())
        with LinuxDevice(SimKernel(driver), "/dev/accel/accel0", "linux:0", simulated="a driver") as device:
            kept = device.allocate(100)
            kept[:] = 7
            with device.load(model) as executable:
                executable.run(draw(model))
            device.load(model).run(draw(model))
            assert driver.used > kept.size
        assert (driver.used, driver.files, driver.reports) == (0, (), ())
        assert (kept == 7).all()


@pytest.mark.parametrize("call", ["BO_INIT", "mmap"])
def test_a_model_that_cannot_be_loaded_wholly_leaves_nothing(call: str) -> None:
    model = ane.compile(on_the_host(), allow_host=True)
    kernel = CountingKernel(IdleKernel())
    with LinuxDevice(kernel, "/dev/accel/accel0", "linux:0") as device:
        device.load(model).close()
        for after in range(kernel.calls[call]):
            kernel.fail(call, errno.ENOMEM, after)
            with pytest.raises(ane.DeviceError) as caught:
                device.load(model)
            del caught
            assert kernel.struck
            assert kernel.held == (1, 0, 0)


@pytest.mark.parametrize("name", base_programs())
def test_every_kind_of_operation(name: str) -> None:
    program, rng = base_programs()[name], np.random.default_rng(1)
    inputs = {}
    for buffer in program.inputs:
        assert buffer.layout
        shape = logical_shape(buffer.layout)
        inputs[buffer.name] = rng.integers(-8, 8, shape).astype(NUMPY[buffer.layout.dtype])
    same(program, inputs)
