"""An lstm of one sequence, whose steps are five tasks each from level 1 on."""

import numpy as np
import pytest

from openane.compiler import compile
from openane.ops.build import GraphBuilder
from openane.ops.optimisation import with_level


def lstm(steps, size, hidden, direction="forward", batch=1, bias=True, level=1, **settings):
    rng = np.random.default_rng(hidden)
    both = direction == "bidirectional"
    build = GraphBuilder()
    x = build.input("x", "fp16", (steps, batch, size))
    start = [build.input(name, "fp16", (batch, hidden * (1 + both))) for name in ("h", "c")]

    def drawn(*shape):
        return rng.uniform(-0.3, 0.3, shape).astype(np.float16)

    sides = {f"{name}{back}": drawn(*shape) for back in ("", "_back")[:1 + both] for name, shape in
             (("weight_ih", (4 * hidden, size)), ("weight_hh", (4 * hidden, hidden)),
              *([("bias", (4 * hidden,))] if bias else []))}
    made = build.add("lstm", x=x, initial_h=start[0], initial_c=start[1], direction=direction, **sides,
                     **{"output_sequence": True, **settings})
    return with_level(build.finish(dict(zip(("y", "last", "cell"), made, strict=True))), level)


def tasks(graph):
    return len(compile(graph).program.tasks)


@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
@pytest.mark.parametrize(("steps", "size", "hidden"), [(1, 8, 8), (2, 24, 16), (7, 5, 64), (12, 130, 40)])
def test_states_and_cells(compare, direction, steps, size, hidden):
    compare(lstm(steps, size, hidden, direction), low=-1, high=1, absolute=1e-2, relative=1e-2)


@pytest.mark.parametrize("settings", [{"bias": False}, {"output_sequence": False}, {"clip": 0.5}, {"batch": 3},
                                      {"direction": "reverse"}, {"activation": "relu"}, {"hidden": 12}])
def test_what_else_there_is(compare, settings):
    """Those that are computed another way are still right."""
    compare(lstm(**{"steps": 5, "size": 16, "hidden": 16, **settings}), low=-1, high=1, absolute=1e-2, relative=1e-2)


@pytest.mark.parametrize("generation", ["h14", "h15", "h16", "h17", "h18"])
def test_every_generation(compare, generation):
    compare(lstm(4, 16, 32), low=-1, high=1, absolute=1e-2, relative=1e-2, target=generation)


def test_five_tasks_a_step():
    long, short = (tasks(lstm(steps, 64, 64)) for steps in (24, 8))
    assert long - short == 16 * 5
    assert tasks(lstm(24, 64, 64, level=0)) > 24 * 8
