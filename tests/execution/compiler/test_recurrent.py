"""lstm, gru and rnn: unrolled on the engine against their references, and the references against onnxruntime."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from openane.compiler import compile
from openane.errors import GraphError, UnsupportedError
from openane.ops import get_op
from openane.ops.build import GraphBuilder

FEW = settings(max_examples=8, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
GATES = {"rnn": 1, "gru": 3, "lstm": 4}
ACTIVATIONS = st.sampled_from(["tanh", "sigmoid", "relu", "linear", "sigmoid_hard", "scaled_tanh"])


def weights(op, size, hidden, seed=0, peephole=False):
    """Random weights of one direction."""
    rng, rows = np.random.default_rng(seed), GATES[op] * hidden
    made = {"weight_ih": rng.standard_normal((rows, size)) / np.sqrt(size),
            "weight_hh": rng.standard_normal((rows, hidden)) / np.sqrt(hidden), "bias": rng.standard_normal(rows) / 2}
    if peephole:
        made["peephole"] = rng.standard_normal(3 * hidden) / 2
    return {name: data.astype(np.float16) for name, data in made.items()}


def graph_of(op, steps, batch, size, hidden, **settings_):
    builder = GraphBuilder()
    peephole = settings_.pop("peephole", False)
    operands = weights(op, size, hidden, 0, peephole)
    features = hidden
    if settings_.get("direction") == "bidirectional":
        features = 2 * hidden
        operands |= {f"{name}_back": data for name, data in weights(op, size, hidden, 1, peephole).items()}
    for name in ("initial_h", "initial_c")[:2 if op == "lstm" else 1]:
        operands[name] = builder.input(name, "fp16", (batch, features))
    made = builder.add(op, x=builder.input("x", "fp16", (steps, batch, size)), **operands, **settings_)
    return builder.finish({f"r{i}": value for i, value in enumerate(made)})


@FEW
@given(steps=st.integers(1, 5), batch=st.integers(1, 4), size=st.integers(1, 9), hidden=st.sampled_from([1, 5, 16, 33]),
       direction=st.sampled_from(["forward", "reverse", "bidirectional"]), sequence=st.booleans(),
       peephole=st.booleans(), clip=st.sampled_from([None, 0.25]), gate=st.sampled_from(["sigmoid", "sigmoid_hard"]),
       cell=ACTIVATIONS, out=ACTIVATIONS)
def test_lstm(hold, steps, batch, size, hidden, direction, sequence, peephole, clip, gate, cell, out):
    graph = graph_of("lstm", steps, batch, size, hidden, direction=direction, output_sequence=sequence, clip=clip,
                     peephole=peephole, recurrent_activation=gate, cell_activation=cell, activation=out)
    hold(graph, low=-1, high=1, absolute=2e-2, relative=1e-2)


@FEW
@given(steps=st.integers(1, 5), batch=st.integers(1, 4), size=st.integers(1, 9), hidden=st.sampled_from([1, 5, 16, 33]),
       direction=st.sampled_from(["forward", "reverse"]), sequence=st.booleans(), op=st.sampled_from(["gru", "rnn"]),
       out=st.sampled_from(["tanh", "sigmoid"]))
def test_gru_and_rnn(hold, steps, batch, size, hidden, direction, sequence, op, out):
    hold(graph_of(op, steps, batch, size, hidden, direction=direction, output_sequence=sequence, activation=out),
         low=-1, high=1, absolute=2e-2, relative=1e-2)


def test_long_sequences_stay_accurate(hold):
    """Errors of the tables do not pile up: gates pull states back."""
    for op in GATES:
        hold(graph_of(op, 24, 2, 32, 32, output_sequence=True), low=-1, high=1, absolute=2e-2, relative=1e-2)


def test_inputs_of_all_steps_are_one_convolution():
    model = compile(graph_of("lstm", 8, 1, 32, 32, output_sequence=True))
    assert len(model.program.tasks) <= 8 * 9 + 8


@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
def test_lstm_is_that_of_onnxruntime(onnx_cell, direction):
    count = 2 if direction == "bidirectional" else 1
    sides = [weights("lstm", 3, 4, seed, peephole=True) for seed in range(count)]
    rng = np.random.default_rng(9)
    x, h, c = (rng.uniform(-1, 1, shape).astype(np.float32) for shape in ((5, 2, 3), (count, 2, 4), (count, 2, 4)))

    def reordered(data):  # i f o z to onnx's i o f c
        i, f, o, *z = np.split(data, 4 if data.shape[0] == 16 else 3)
        return np.concatenate([i, o, f, *z])

    wide = [{name: reordered(data.astype(np.float32)) for name, data in side.items()} for side in sides]
    bias = np.stack([np.concatenate([side["bias"], np.zeros(16, np.float32)]) for side in wide])
    wanted = onnx_cell("LSTM", x, *(np.stack([side[name] for side in wide]) for name in ("weight_ih", "weight_hh")),
                       bias, None, h, c, np.stack([side["peephole"] for side in wide]), hidden_size=4,
                       direction=direction, outputs=3)
    parameters = {p.name: None for p in get_op("lstm").parameters}
    stated = dict(sides[0]) | ({f"{name}_back": data for name, data in sides[1].items()} if count == 2 else {})
    found = get_op("lstm").reference(**parameters | stated | {
        "x": x, "initial_h": np.concatenate(h, 1), "initial_c": np.concatenate(c, 1), "direction": direction,
        "output_sequence": np.array(True), "recurrent_activation": "sigmoid", "cell_activation": "tanh",
        "activation": "tanh"})
    np.testing.assert_allclose(found[0], wanted[0].transpose(0, 2, 1, 3).reshape(5, 2, -1), atol=1e-5)
    for mine, theirs in zip(found[1:], wanted[1:], strict=True):
        np.testing.assert_allclose(mine, np.concatenate(theirs, 1), atol=1e-5)


def test_gru_is_that_of_onnxruntime(onnx_cell):
    side = weights("gru", 3, 4)
    rng = np.random.default_rng(9)
    x, h = rng.uniform(-1, 1, (5, 2, 3)).astype(np.float32), rng.uniform(-1, 1, (1, 2, 4)).astype(np.float32)

    def reordered(data):  # r o z to onnx's z r h
        r, o, z = np.split(data.astype(np.float32), 3)
        return np.concatenate([z, r, o])[None]

    bias = np.concatenate([reordered(side["bias"]), np.zeros((1, 12), np.float32)], 1)
    wanted = onnx_cell("GRU", x, reordered(side["weight_ih"]), reordered(side["weight_hh"]), bias, None, h,
                       hidden_size=4, outputs=2)
    found = get_op("gru").reference(x=x, initial_h=h[0], **side, direction="forward", output_sequence=np.array(True),
                                    recurrent_activation="sigmoid", activation="tanh")
    np.testing.assert_allclose(found[0], wanted[0][:, 0], atol=1e-5)
    np.testing.assert_allclose(found[1], wanted[1][0], atol=1e-5)


@pytest.fixture(scope="module")
def onnx_cell():
    """onnx_cell(type, *inputs, outputs=, **attributes): what onnxruntime computes for one cell; None leaves out."""
    import onnx
    import onnxruntime as runtime

    def run(kind, *inputs, outputs, **attributes):
        given_ = {f"i{n}": array for n, array in enumerate(inputs) if array is not None}
        names = [f"i{n}" if array is not None else "" for n, array in enumerate(inputs)]
        made = [f"o{n}" for n in range(outputs)]
        info = onnx.helper.make_tensor_value_info
        graph = onnx.helper.make_graph(
            [onnx.helper.make_node(kind, names, made, **attributes)], "cell",
            [info(name, onnx.TensorProto.FLOAT, array.shape) for name, array in given_.items()],
            [info(name, onnx.TensorProto.FLOAT, None) for name in made])
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 14)], ir_version=8)
        return runtime.InferenceSession(model.SerializeToString()).run(None, given_)

    return run


def test_too_many_steps_are_refused():
    with pytest.raises(UnsupportedError, match="at most 1024 steps"):
        compile(graph_of("rnn", 1025, 1, 2, 2))


@pytest.mark.parametrize(("op", "change", "sentence"), [
    ("lstm", {"direction": "sideways"}, "forward, reverse, bidirectional"),
    ("gru", {"direction": "bidirectional"}, "forward, reverse"),
    ("lstm", {"activation": "softmax"}, "linear, relu"),
    ("lstm", {"clip": -1.0}, "more than 0"),
    ("rnn", {"weight_hh": np.zeros((4, 5), np.float16)}, "shape"),
    ("lstm", {"initial_c": np.zeros((2, 5), np.float16)}, "shape"),
])
def test_operands_that_do_not_fit(op, change, sentence):
    builder = GraphBuilder()
    states = {name: np.zeros((2, 4), np.float16) for name in ("initial_h", "initial_c")[:2 if op == "lstm" else 1]}
    with pytest.raises(GraphError, match=sentence):
        builder.add(op, **{"x": builder.input("x", "fp16", (3, 2, 6)), **weights(op, 6, 4), **states, **change})


def test_a_bidirectional_lstm_needs_both_weights():
    builder = GraphBuilder()
    states = {name: np.zeros((2, 8), np.float16) for name in ("initial_h", "initial_c")}
    with pytest.raises(GraphError, match="weight_hh_back must be given"):
        builder.add("lstm", x=builder.input("x", "fp16", (3, 2, 6)), **weights("lstm", 6, 4), **states,
                    direction="bidirectional")
