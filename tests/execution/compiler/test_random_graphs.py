"""Random graphs: values with several readers, views of views, outputs in the middle."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.random_values import SMALL, graphs

from openane.chips import compiled_generations
from openane.compiler import compile
from openane.compiler.schedule.pipeline import resident
from openane.program.verify import verify

RANDOM = settings(max_examples=30, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


@RANDOM
@given(graphs(SMALL, 12), st.sampled_from(compiled_generations()))
def test_random_graphs(compare, graph, target):
    compare(graph, low=-1.0, high=1.0, absolute=3e-2, relative=1e-2, target=target)


@RANDOM
@given(graphs([(1, 16, 24, 40), (1, 70, 9, 33), (33, 20), (1, 1, 3, 2, 6), (1, 64, 1, 128), (1, 1, 120, 90)], 10),
       st.sampled_from(compiled_generations()))
def test_copies_left_out_and_tensors_kept_in_l2_change_no_bit(execute, graph, target):
    inputs = {v.name: np.random.default_rng(1).uniform(-1, 1, v.shape).astype(np.float16) for v in graph.inputs}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("openane.compiler.schedule.pipeline.forwarded", lambda steps, *_: steps)
        patch.setattr("openane.compiler.schedule.pipeline.resident", lambda operations, table, *_: (operations, table))
        expected = execute(compile(graph, target=target), inputs)
    for share in (None, 1 << 13):
        with pytest.MonkeyPatch.context() as patch:
            if share is not None:
                patch.setattr("openane.compiler.schedule.pipeline.resident",
                              lambda ops, table, _, limits, reserved, share=share:
                              resident(ops, table, share, limits, reserved))
            model = compile(graph, target=target)
        verify(model.program)
        found = execute(model, inputs)
        for name, wanted in expected.items():
            np.testing.assert_array_equal(found[name], wanted)
