"""Loops, branches and lists of ML programs, as coremltools writes them, are written out: numpy's loops agree."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from support.needs import library

from openane.errors import UnsupportedError
from openane.graph.mil import control, lists
from openane.importers import load_coreml
from openane.ops.evaluate import evaluate

X = np.random.default_rng(5).standard_normal((2, 4, 6)).astype(np.float16).astype(np.float32)


@pytest.fixture(scope="module")
def coremltools():
    """The package, which warns about the versions of everything else."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return library("coremltools")


@pytest.fixture
def graph_of(coremltools):
    """The graph of a function of a builder and its inputs."""
    mb, types = coremltools.converters.mil.Builder, coremltools.converters.mil.mil.types

    def build(function, states=()):
        specs = [mb.TensorSpec(shape=X.shape, dtype=types.fp32)]
        specs += [mb.StateTensorSpec(shape=shape, dtype=types.fp16) for shape in states]
        target = coremltools.target.iOS18 if states else coremltools.target.iOS17
        if states:
            def program(x, s):
                return function(mb, x, s)
        else:
            def program(x):
                return function(mb, x)
        made = mb.program(input_specs=specs, opset_version=target)(program)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return load_coreml(coremltools.convert(
                made, convert_to="mlprogram", minimum_deployment_target=target, skip_model_load=True,
                compute_precision=coremltools.precision.FLOAT32, pass_pipeline=coremltools.PassPipeline.EMPTY))

    return build


def first(graph, x=X):
    return next(iter(evaluate(graph, {"x": x}).values()))


def counted(mb, x):
    """Four turns, each with an element of the input and a branch on the counter."""
    def body(turn, total):
        part = mb.gather(x=x, indices=turn, axis=1)
        grown = mb.cond(pred=mb.equal(x=mb.mod(x=turn, y=2), y=0), _true_fn=lambda: mb.add(x=total, y=part),
                        _false_fn=lambda: mb.mul(x=total, y=2.0))
        return mb.add(x=turn, y=1), grown

    return mb.while_loop(_cond=lambda turn, total: mb.less(x=turn, y=4), _body=body,
                         loop_vars=(mb.const(val=np.int32(0)), mb.gather(x=x, indices=3, axis=1)))[1]


def test_loops_are_turned_as_often_as_their_counter_says(graph_of):
    graph = graph_of(counted)
    assert not {node.op for node in graph.nodes} & {"while_loop", "cond"}
    assert np.allclose(first(graph), (X[:, 3] + X[:, 0]) * 2 * 2 + X[:, 2] * 2, atol=1e-5)


def test_both_branches_are_computed_where_data_decides(graph_of):
    def program(mb, x):
        positive = mb.greater(x=mb.reduce_sum(x=x, axes=[0, 1, 2], keep_dims=False), y=0.0)
        return mb.cond(pred=positive, _true_fn=lambda: mb.relu(x=x), _false_fn=lambda: mb.mul(x=x, y=2.0))

    graph = graph_of(program)
    for x in (X - X.mean() + 1, X - X.mean() - 1):
        assert np.allclose(first(graph, x), np.maximum(x, 0) if x.sum() > 0 else x * 2)


@pytest.mark.parametrize("scale", [1e-3, 0.5, 100])
def test_loops_that_data_ends_go_on_to_their_bound(graph_of, scale):
    """What was made when the condition first failed is the result, however far the turns behind it go."""
    def program(mb, x):
        def condition(turn, held):
            small = mb.less(x=mb.reduce_sum(x=mb.abs(x=held), axes=[0, 1, 2], keep_dims=False), y=90.0)
            return mb.cond(pred=small, _true_fn=lambda: mb.less(x=turn, y=6),
                           _false_fn=lambda: mb.cast(x=mb.const(val=np.int32(0)), dtype="bool"))

        return mb.while_loop(_cond=condition, _body=lambda turn, held: (mb.add(x=turn, y=1), mb.mul(x=held, y=1.5)),
                             loop_vars=(mb.const(val=np.int32(0)), x))[1]

    expected, turn = X * scale, 0
    while np.abs(expected).sum() < 90 and turn < 6:
        expected, turn = expected * 1.5, turn + 1
    assert np.allclose(first(graph_of(program), X * scale), expected, rtol=1e-5)


def test_loops_without_a_bound_are_refused(graph_of, monkeypatch):
    def endless(mb, x):
        def condition(held):
            return mb.less(x=mb.reduce_max(x=held, axes=[0, 1, 2], keep_dims=False), y=90.0)

        return mb.while_loop(_cond=condition, _body=lambda held: mb.add(x=held, y=1.0), loop_vars=(x,))

    with pytest.raises(UnsupportedError, match=r"while_loop \(operation \d+\).*(?s:.*)end the loop by a count too"):
        graph_of(endless)
    monkeypatch.setattr(control, "MOST_TURNS", 3)
    with pytest.raises(UnsupportedError, match=r"3 turns.*(?s:.*)let the host loop"):
        graph_of(counted)


def test_loops_within_loops_are_bounded_where_they_come_to_nothing(graph_of, monkeypatch):
    def nested(mb, x):
        def loop(body):
            return lambda held: mb.while_loop(_cond=lambda turn, held: mb.less(x=turn, y=9),
                                              _body=lambda turn, held: (mb.add(x=turn, y=1), body(held)),
                                              loop_vars=(mb.const(val=np.int32(0)), held))[1]

        return mb.add(x=x, y=loop(loop(loop(lambda held: mb.add(x=held, y=1.0))))(mb.const(val=np.float32(0))))

    assert np.allclose(first(graph_of(nested)), X + 9 ** 3)
    monkeypatch.setattr(control, "MOST_STATEMENTS", 1000)
    with pytest.raises(UnsupportedError, match="1000 statements"):
        graph_of(nested)


def test_lists_hold_what_loops_put_there(graph_of):
    def program(mb, x):
        held = mb.make_list(init_length=4, elem_shape=(2, 6), dtype="fp32")
        held = mb.while_loop(
            _cond=lambda turn, held: mb.less(x=turn, y=4),
            _body=lambda turn, held: (mb.add(x=turn, y=1),
                                      mb.list_write(ls=held, index=turn, value=mb.gather(x=x, indices=turn, axis=1))),
            loop_vars=(mb.const(val=np.int32(0)), held))[1]
        whole = mb.list_gather(ls=held, indices=mb.range_1d(start=0, end=mb.list_length(ls=held), step=1))
        other = mb.list_scatter(ls=mb.make_list(init_length=3, elem_shape=(2, 6), dtype="fp32"),
                                value=mb.transpose(x=x, perm=[1, 0, 2]),
                                indices=np.array([2, 1, 0, 3], np.int32))
        return mb.sub(x=whole, y=mb.list_read(ls=other, index=0))

    rows = X.transpose(1, 0, 2)
    assert np.allclose(first(graph_of(program)), rows - rows[2])


def test_zeros_without_end_are_refused(graph_of, monkeypatch):
    def program(mb, x):
        held = mb.make_list(init_length=2, elem_shape=(2, 6), dtype="fp32")
        return mb.add(x=mb.gather(x=x, indices=0, axis=1), y=mb.list_read(ls=held, index=1))

    assert np.allclose(first(graph_of(program)), X[:, 0])
    monkeypatch.setattr(lists, "MOST_ZEROS", 11)
    with pytest.raises(UnsupportedError, match=r"element 1 is read before it is written(?s:.*)limit 11, found 12"):
        graph_of(program)


def test_states_are_written_in_loops_and_never_in_branches_that_data_takes(graph_of):
    def turned(mb, x, s):
        def body(turn, held):
            mb.coreml_update_state(state=s, value=mb.add(x=mb.read_state(input=s), y=np.float16(1)))
            return mb.add(x=turn, y=1), held

        return mb.while_loop(_cond=lambda turn, held: mb.less(x=turn, y=2), _body=body,
                             loop_vars=(mb.const(val=np.int32(0)), x))[1]

    def branched(mb, x, s):
        def written():
            mb.coreml_update_state(state=s, value=np.zeros(3, np.float16))
            return mb.relu(x=x)

        large = mb.greater(x=mb.reduce_sum(x=x, axes=[0, 1, 2], keep_dims=False), y=0.0)
        return mb.cond(pred=large, _true_fn=written, _false_fn=lambda: mb.abs(x=x))

    assert [node.op for node in graph_of(turned, [(3,)]).nodes].count("write_state") == 2
    with pytest.raises(UnsupportedError, match=r"a state is written always or never"):
        graph_of(branched, [(3,)])
