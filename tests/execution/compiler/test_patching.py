"""New weights in compiled programs: the patched program computes what a compilation with them computes."""

from __future__ import annotations

import numpy as np
import pytest

from openane.chips import compiled_generations
from openane.compiler import Model, compile
from openane.compiler.patch_model import patch, patch_task
from openane.errors import GraphError, ProgramError, UnsupportedError
from openane.graph import Graph
from openane.ops.build import GraphBuilder
from openane.simulator import load

RNG = np.random.default_rng(3)


def network(weights: np.ndarray, bias: np.ndarray, groups: int = 1) -> Graph:
    """relu(conv(x)) followed by a product with a constant."""
    builder = GraphBuilder()
    x = builder.input("x", "fp16", (1, 8, 6, 6))
    y = builder.single("conv", x=x, weight=builder.constant(weights, "w"), bias=builder.constant(bias, "b"),
                       strides=np.array([1, 1], np.int32), pad_type="custom", pad=np.array([1, 1, 1, 1], np.int32),
                       dilations=np.array([1, 1], np.int32), groups=np.int32(groups))
    return builder.finish({"y": builder.single("relu", x=y)})


def draw(*shape: int) -> np.ndarray:
    return RNG.uniform(-1, 1, shape).astype(np.float16)


def run(model: Model) -> np.ndarray:
    loaded = load(model.program, arithmetic="exact")
    size = next(b for b in model.program.buffers if b.name == "x").size
    loaded.run({"x": (np.arange(size // 2) % 13 - 6).astype(np.float16).view(np.uint8)})
    return np.array(loaded.buffers["y"])


@pytest.mark.parametrize("target", compiled_generations())
def test_weights_by_name(target: str) -> None:
    model = compile(network(draw(24, 8, 3, 3), draw(24)), target=target)
    w, b = draw(24, 8, 3, 3), draw(24)
    patched = model.patch({"w": w, "b": b})
    fresh = compile(network(w, b), target=target)
    assert patched.model.program == fresh.program
    assert (run(patched.model) == run(fresh)).all()
    assert not (run(patched.model) == run(model)).all()
    [ranges], [changes] = patched.ranges, patched.changes
    assert ranges
    assert {(c.task, c.what) for c in changes} == {(0, "coefficients")}
    old, new = model.program.constants, patched.model.program.constants
    assert {i for s, e in ranges for i in range(s, e)} == {i for i in range(len(old)) if old[i] != new[i]}


@pytest.mark.parametrize("target", ["h13", "h14", "h16", "h18"])
@pytest.mark.parametrize(("outputs", "inputs", "groups"), [(24, 8, 1), (8, 4, 2), (8, 1, 8), (70, 8, 1)])
def test_weights_of_a_task_are_packed_where_its_fields_say(outputs: int, inputs: int, groups: int,
                                                           target: str) -> None:
    model = compile(network(draw(outputs, inputs, 3, 3), draw(outputs), groups), target=target)
    w, b = draw(outputs, inputs, 3, 3), draw(outputs)
    assert len(model.program.tasks) == 1
    patched = patch_task(model.program, 0, w, b)
    assert patched.program == compile(network(w, b, groups), target=target).program
    assert patched.changed > 0
    assert patch_task(patched.program, 0, w, b).ranges == ()


def test_refusals_say_why() -> None:
    model = compile(network(draw(24, 8, 3, 3), draw(24)))
    with pytest.raises(GraphError, match="did you mean w"):
        patch(model, {"ww": draw(1)})
    with pytest.raises(GraphError, match=r"shape \[24, 8, 3, 3\]"):
        patch(model, {"w": draw(24, 8, 3, 1)})
    with pytest.raises(ProgramError, match="24 channels of 72"):
        patch_task(model.program, 0, draw(24, 8, 3, 1))
    with pytest.raises(ProgramError, match="24 biases"):
        patch_task(model.program, 0, draw(24, 8, 3, 3), draw(23))
    with pytest.raises(ProgramError, match="tasks 0 to"):
        patch_task(model.program, 9, draw(1))


def test_constants_that_change_the_shape_of_a_result_are_refused() -> None:
    builder = GraphBuilder()
    found = builder.single("non_zero", x=builder.constant(np.array([0, 1, 0, 2], np.float16), "c"))
    x = builder.input("x", "fp16", (2, 8))
    model = compile(builder.finish({"y": builder.single("relu", x=x), "z": found}))
    with pytest.raises(UnsupportedError, match="these change the result of non_zero"):
        model.patch({"c": np.ones(4, np.float16)})
    model.patch({"c": np.array([1, 1, 0, 0], np.float16)})


def test_what_constants_alone_cannot_do_is_refused() -> None:
    builder = GraphBuilder()
    x = builder.input("x", "fp16", (1, 8, 6, 6))
    y = builder.single("mul", x=x, y=builder.constant(np.array(0.5, np.float16), "factor"))
    model = compile(builder.finish({"y": y}))
    with pytest.raises(UnsupportedError, match="compile the model with the new weights"):
        patch(model, {"factor": np.array(0.25, np.float16)})
