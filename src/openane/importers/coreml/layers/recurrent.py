"""Recurrent layers: simple ones, GRUs, and LSTMs in one or both directions, as operations of the same names.

A sequence is [steps, batch, features, 1, 1], or [steps, features, 1, 1] in networks whose arrays have five dimensions
of which the first two are one here; states are such sequences of one step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from openane.errors import GraphError, UnsupportedError
from openane.formats.protobuf import Message
from openane.graph import Value
from openane.importers.coreml.layers.layer import CoremlLayer, Handler, Result

_ACTIVATIONS = {"linear": "linear", "ReLU": "relu", "tanh": "tanh", "scaledTanh": "scaled_tanh", "sigmoid": "sigmoid",
                "sigmoidHard": "sigmoid_hard"}
_SETTINGS = {"linear": (1.0, 0.0), "scaledTanh": (1.0, 1.0), "sigmoidHard": (0.2, 0.5)}
"""Of activations with settings, those their cells have."""
_GATES = ("inputGate", "forgetGate", "outputGate", "blockInput")
_GRU = ("resetGate", "outputGate", "updateGate")
"""In the order in which MIL stacks them."""
MOST_ZEROS = 1 << 24
"""Of a state that is not given."""


def _activation(layer: CoremlLayer, params: Message) -> str:
    kind = params.which(*_ACTIVATIONS) or "none that is known"
    inner = getattr(params, kind) if kind in _SETTINGS else None
    settings = None if inner is None else (inner.alpha, inner.beta)
    if kind not in _ACTIVATIONS or (settings is not None and not np.allclose(settings, _SETTINGS[kind])):
        raise layer.refuse("this activation of a cell", f"{kind} {settings or ''}".strip(),
                           ", ".join(f"{name} {_SETTINGS.get(name, '')}".strip() for name in _ACTIVATIONS))
    return _ACTIVATIONS[kind]


def _activations(layer: CoremlLayer, given: Sequence[Message], defaults: Sequence[str]) -> list[str]:
    if not given:
        return list(defaults)
    if len(given) != len(defaults):
        raise GraphError(f"{layer.label}: needs {len(defaults)} activations, found {len(given)}")
    return [_activation(layer, each) for each in given]


def _sequence(layer: CoremlLayer, features: int) -> Value:
    """The input as [steps, batch, features]."""
    x = layer.real()
    steps, batch = (x.shape[0], x.shape[1]) if layer.exact and x.type.rank >= 3 else (x.shape[0], 1)
    if x.type.elements != steps * batch * features:
        raise GraphError(f"{layer.label}: {x.type} is no sequence of {features} features")
    return layer.reshaped(x, (steps, batch, features), "sequence")


def _state(layer: CoremlLayer, place: int, batch: int, hidden: int) -> Value | np.ndarray:
    """A state as [batch, hidden]: an input, or zeros. UnsupportedError for zeros without end."""
    if place >= len(layer.inputs):
        if batch * hidden > MOST_ZEROS:
            raise UnsupportedError(layer.label, "the zeros of a state that is not given become a constant",
                                   limit=MOST_ZEROS, found=batch * hidden, remedy="give the state as an input")
        return np.zeros((batch, hidden), np.float16)
    return layer.reshaped(layer.real(place), (batch, hidden), f"state{place}")


def _matrix(layer: CoremlLayer, weights: Message, names: Sequence[str], columns: int, hidden: int) -> np.ndarray:
    return np.concatenate([layer.weights(getattr(weights, name), (hidden, columns), name) for name in names])


def _bias(layer: CoremlLayer, weights: Message, names: Sequence[str], hidden: int, stated: bool,
          forget: bool = False) -> np.ndarray | None:
    """The bias of all gates, None where there is none; `forget` adds 1 to the forget gate's."""
    if not stated and not forget:
        return None
    rows = [layer.weights(getattr(weights, name), (hidden,), name) if stated else np.zeros(hidden, np.float16)
            for name in names]
    return np.concatenate([row + np.float16(forget and name.startswith("forget"))
                           for name, row in zip(names, rows, strict=True)])


def _results(layer: CoremlLayer, made: Sequence[Value], halves: int = 1) -> Result:
    """The sequence and the final states as Core ML has them: those of both directions apart."""
    found = [_with_places(layer, made[0], "outputs")]
    states = [(value, half) for half in range(halves) for value in made[1:]]
    for number, (value, half) in enumerate(states[:max(len(layer.outputs) - 1, 0)]):
        width = value.shape[1] // halves
        if halves > 1:
            value = layer.add("slice_by_index", part=f"half{number}", x=value, begin=[0, half * width],
                              end=[value.shape[0], (half + 1) * width])
        one = layer.reshaped(value, (1, *value.shape), f"final{number}")
        found.append(_with_places(layer, one, f"last{number}"))
    return tuple(found)


def _with_places(layer: CoremlLayer, value: Value, part: str) -> Value:
    shape = (*value.shape, 1, 1) if layer.exact else (value.shape[0], value.shape[2], 1, 1)
    return layer.reshaped(value, shape, part)


def _simple(layer: CoremlLayer) -> Result:
    params, hidden = layer.params, layer.params.outputVectorSize
    x = _sequence(layer, params.inputVectorSize)
    return _results(layer, layer.add_all(
        "rnn", part="cells", x=x, initial_h=_state(layer, 1, x.shape[1], hidden),
        weight_ih=layer.weights(params.weightMatrix, (hidden, x.shape[2]), "weightMatrix"),
        weight_hh=layer.weights(params.recursionMatrix, (hidden, hidden), "recursionMatrix"),
        bias=layer.weights(params.biasVector, (hidden,), "biasVector") if params.hasBiasVector else None,
        direction=_direction(params), output_sequence=params.sequenceOutput,
        activation=_activation(layer, params.activation)))


def _direction(params: Message) -> str:
    return "reverse" if params.reverseInput else "forward"


def _gru(layer: CoremlLayer) -> Result:
    params, hidden = layer.params, layer.params.outputVectorSize
    x = _sequence(layer, params.inputVectorSize)
    inner, outer = _activations(layer, params.activations, ("sigmoid", "tanh"))
    weights, recursions, biases = ([f"{gate}{part}" for gate in _GRU]
                                   for part in ("WeightMatrix", "RecursionMatrix", "BiasVector"))
    return _results(layer, layer.add_all(
        "gru", part="cells", x=x, initial_h=_state(layer, 1, x.shape[1], hidden),
        weight_ih=_matrix(layer, params, weights, x.shape[2], hidden),
        weight_hh=_matrix(layer, params, recursions, hidden, hidden),
        bias=_bias(layer, params, biases, hidden, params.hasBiasVectors), direction=_direction(params),
        output_sequence=params.sequenceOutput, recurrent_activation=inner, activation=outer))


def _lstm(layer: CoremlLayer) -> Result:
    params = layer.params
    sides = list(params.weightParams) if layer.kind == "biDirectionalLSTM" else [params.weightParams]
    given = params.activationsForwardLSTM if len(sides) > 1 else params.activations
    if len(sides) > 1:
        backward = _activations(layer, params.activationsBackwardLSTM, ("sigmoid", "tanh", "tanh"))
        if backward != _activations(layer, given, ("sigmoid", "tanh", "tanh")):
            raise layer.refuse("a backward cell with activations of its own", ", ".join(backward),
                               "those of the forward cell")
    gate, cell, outer = _activations(layer, given, ("sigmoid", "tanh", "tanh"))
    options, hidden = params.params, params.outputVectorSize
    if options.coupledInputAndForgetGate:
        raise UnsupportedError(layer.label, "an input gate that is coupled to the forget gate is not supported",
                               found="coupledInputAndForgetGate", remedy="gates with weights of their own")
    x = _sequence(layer, params.inputVectorSize)
    operands = [_side(layer, weights, x.shape[2], suffix)
                for weights, suffix in zip(sides, ("", "_back"), strict=False)]
    clip = options.cellClipThreshold
    states = [[_state(layer, place + 1 + side * 2, x.shape[1], hidden) for side in range(len(sides))]
              for place in range(2)]
    return _results(layer, layer.add_all(
        "lstm", part="cells", x=x, initial_h=_joined(layer, states[0], "initial_h"),
        initial_c=_joined(layer, states[1], "initial_c"), direction="bidirectional" if len(sides) > 1 else
        _direction(params), output_sequence=options.sequenceOutput, recurrent_activation=gate, cell_activation=cell,
        activation=outer, clip=layer.number(clip, "clip") if 0 < clip < 1e4 else None,
        **{key: value for side in operands for key, value in side.items()}), len(sides))


def _side(layer: CoremlLayer, weights: Message, features: int, suffix: str) -> dict[str, np.ndarray | None]:
    """The weights of one direction, stacked as MIL has them."""
    options, hidden = layer.params.params, layer.params.outputVectorSize
    names = {part: [f"{gate}{part}" for gate in _GATES] for part in ("WeightMatrix", "RecursionMatrix", "BiasVector")}
    holes = [f"{gate}PeepholeVector" for gate in _GATES[:3]]
    peephole = np.concatenate([layer.weights(getattr(weights, name), (hidden,), name) for name in holes]) \
        if options.hasPeepholeVectors else None
    return {f"weight_ih{suffix}": _matrix(layer, weights, names["WeightMatrix"], features, hidden),
            f"weight_hh{suffix}": _matrix(layer, weights, names["RecursionMatrix"], hidden, hidden),
            f"bias{suffix}": _bias(layer, weights, names["BiasVector"], hidden, options.hasBiasVectors,
                                   options.forgetBias),
            f"peephole{suffix}": peephole}


def _joined(layer: CoremlLayer, states: Sequence[Value | np.ndarray], part: str) -> Value | np.ndarray:
    """States of both directions side by side."""
    if len(states) == 1:
        return states[0]
    arrays = [each for each in states if isinstance(each, np.ndarray)]
    if len(arrays) == len(states):
        return np.concatenate(arrays, 1)
    values = [each for each in states if isinstance(each, Value)]
    if len(values) != len(states):
        raise GraphError(f"{layer.label}: the states of one direction are missing")
    return layer.add("concat", part=part, values=tuple(values), axis=1)


LAYERS: Mapping[str, Handler] = {"simpleRecurrent": _simple, "gru": _gru, "uniDirectionalLSTM": _lstm,
                                 "biDirectionalLSTM": _lstm}
