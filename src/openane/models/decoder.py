"""One step of a decoder as a graph: so many new tokens on top of what the cache holds.

The cache is two states for all layers, `keys` [layers, kv heads, head size, context] and `values` [layers, kv heads,
context, head size]: so both lie as the products want their runtime operand, and nothing of the cache is transposed. A
step reads as much of them as it sees, and gives the new tokens' keys and values, which

- the host places by slice after the step (`CacheWriter.HOST`: a few hundred bytes per token and layer), or
- the engine blends in (`CacheWriter.ENGINE`): state * (1 - put) + new spread by put, the whole cache rewritten on every
  step.

The mask is an input: the host knows how many tokens the cache holds and which rows are padding.
"""

from __future__ import annotations

from openane.graph import Graph, Value
from openane.models.adapters import GROUPS, Adapted
from openane.models.config import Config
from openane.models.layers import CheckpointParameters, ModelLayers
from openane.models.steps import CacheWriter, ModelStep
from openane.ops.build import GraphBuilder

PLACES = {"keys": 3, "values": 2}
"""The axis along which the states' tokens lie."""


def state_shapes(config: Config, tokens: int) -> dict[str, tuple[int, int, int, int]]:
    """Of `keys` and `values` of so many tokens, as states and as a step's outputs."""
    outer = config.layers, config.kv_heads
    return {"keys": (*outer, config.head_size, tokens), "values": (*outer, tokens, config.head_size)}


def head_name(config: Config) -> str:
    """The weight that scores the vocabulary."""
    return "embedding.weight" if config.tied else "head.weight"


def build(parameters: CheckpointParameters, step: ModelStep) -> Graph:
    """The step as a graph.

    Inputs, fp16: `embeddings` [1, tokens, width], `mask` [1, 1, tokens, seen + tokens] (columns: the cache, then the
    new tokens; with CacheWriter.ENGINE the cache alone, new tokens in their places, [1, 1, tokens, seen]), for rotary
    positions `cosines` and `sines` [1, 1, tokens, head size], for CacheWriter.ENGINE `put` [1, 1, seen, tokens] (1
    where a token goes). Outputs: `logits` [1, tokens, vocabulary] if asked for, `new_keys` and `new_values` (as the
    states, for the new tokens) unless the engine places them, `hidden` [1, tokens, width] where nothing else is left.
    """
    return _Step(parameters, step).graph()


class _Step:
    def __init__(self, parameters: CheckpointParameters, step: ModelStep) -> None:
        config = self.config = parameters.config
        builder = self.builder = GraphBuilder(step.name)
        self.step, self.layers = step, ModelLayers(builder, parameters, step.tokens)
        tokens, on_engine = step.tokens, step.placement is CacheWriter.ENGINE
        self.x = builder.input("embeddings", "fp16", (1, tokens, config.width))
        self.mask = builder.input("mask", "fp16", (1, 1, tokens, step.seen + (0 if on_engine else tokens)))
        self.turns: tuple[Value, Value] | None = None
        if config.family == "llama":
            shape = (1, 1, tokens, config.head_size)
            self.turns = builder.input("cosines", "fp16", shape), builder.input("sines", "fp16", shape)
        self.put = builder.input("put", "fp16", (1, 1, step.seen, tokens)) if on_engine else None
        self.states = {name: builder.state(name, "fp16", shape)
                       for name, shape in state_shapes(config, step.context).items()}
        self.held = {name: builder.read(state) for name, state in self.states.items()}
        self.adapted = Adapted(builder, config, step.slots) if step.slots else None
        self.new: dict[str, list[Value]] = {"keys": [], "values": []}

    def graph(self) -> Graph:
        x = self.x
        for layer in range(self.config.layers):
            x = self._layer(x, layer)
        outputs = {}
        if self.step.logits:
            normal = self.layers.norm(x, "norm")
            outputs["logits"] = self.layers.linear(normal, "head", {head_name(self.config): self.config.vocabulary},
                                                   after="norm")
        for name, parts in self.new.items():
            whole = parts[0] if len(parts) == 1 else self.builder.single("concat", values=tuple(parts), axis=0)
            if self.put is None:
                outputs[f"new_{name}"] = whole
            else:
                self._rewrite(name, whole)
        return self.builder.finish(outputs or {"hidden": x})

    def _layer(self, x: Value, layer: int) -> Value:
        name, layers = f"layers.{layer}", self.layers
        x = self.builder.single("add", x=x, y=self._attention(layers.norm(x, f"{name}.norm1"), layer))
        hidden = layers.norm(x, f"{name}.norm2")
        return self.builder.single("add", x=x, y=self._feed_forward(hidden, layer))

    def _attention(self, x: Value, layer: int) -> Value:
        config, layers, name = self.config, self.layers, f"layers.{layer}"
        sizes = GROUPS["attention"].sizes(config)
        scales = {f"{name}.query.weight": config.query_scale}
        mixed = layers.linear(x, f"{name}.attention", {f"{name}.{part}.weight": size for part, size in sizes.items()},
                              scales, f"{name}.norm1")
        heads = layers.heads(self._adapt(mixed, x, "attention", layer), config.heads + 2 * config.kv_heads)
        turning = config.heads + config.kv_heads
        both, values = layers.part(heads, 1, 0, turning), layers.part(heads, 1, turning, heads.shape[1])
        if config.normed_heads:
            both = layers.normed_heads(both, name)
        if self.turns is not None:
            both = layers.turned(both, *self.turns)
        query, keys = layers.part(both, 1, 0, config.heads), layers.part(both, 1, config.heads, turning)
        seen = self._seen("keys", layers.turned_over(keys), layer), self._seen("values", values, layer)
        rows = layers.attention(query, *seen, self.mask)
        result = layers.linear(rows, f"{name}.output", {f"{name}.output.weight": config.width})
        return self._adapt(result, rows, "output", layer)

    def _feed_forward(self, x: Value, layer: int) -> Value:
        config, layers, name = self.config, self.layers, f"layers.{layer}"
        if self.adapted is None:
            return layers.feed_forward(x, name, config.family == "llama")

        def part(kind: str, source: Value, size: int) -> Value:
            after = f"{name}.norm2" if kind == "up" else None
            made = layers.linear(source, f"{name}.{kind}", {f"{name}.{kind}.weight": size}, after=after)
            return self._adapt(made, source, kind, layer)

        up = part("up", x, config.hidden)
        if config.family != "llama":
            return part("down", layers.activation(up), config.width)
        gate = layers.gate(self._adapt(layers.gate_input(x, name), x, "gate", layer))
        return part("down", self.builder.single("mul", x=gate, y=up), config.width)

    def _adapt(self, result: Value, source: Value, group: str, layer: int) -> Value:
        return result if self.adapted is None else self.adapted.added(result, source, group, layer)

    def _seen(self, name: str, new: Value, layer: int) -> Value:
        """What attention sees of one layer: the cache and the new tokens, each in its place."""
        layers, builder, step, axis = self.layers, self.builder, self.step, PLACES[name]
        held = layers.part(layers.part(self.held[name], 0, layer, layer + 1), axis, 0, step.seen)
        if self.put is None:
            self.new[name].append(new)
            return builder.single("concat", values=(held, new), axis=axis)
        put = layers.turned_over(self.put) if axis == 3 else self.put
        if step.tokens == 1:
            placed, taken = builder.single("mul", x=new, y=put), put
        else:
            spread = builder.single("tile", x=put, reps=(1, self.config.kv_heads, 1, 1))
            first, second = (new, spread) if axis == 3 else (spread, new)
            placed = builder.single("matmul", x=first, y=second)
            taken = builder.single("reduce_sum", x=put, axes=[5 - axis], keep_dims=True)
        kept = builder.single("mul", x=held, y=builder.single("sub", x=1.0, y=taken))
        whole = builder.single("add", x=kept, y=placed)
        self.new[name].append(whole)
        return whole

    def _rewrite(self, name: str, whole: Value) -> None:
        """The state's next contents: what the step sees, and the rest as it was."""
        step, state = self.step, self.states[name]
        if step.seen < step.context:
            rest = self.layers.part(self.held[name], PLACES[name], step.seen, step.context)
            whole = self.builder.single("concat", values=(whole, rest), axis=PLACES[name])
        self.builder.write(state, whole)
