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
from openane.models.activations import model_graph
from openane.models.adapters import GROUPS, Adapted
from openane.models.config import Config, Rope
from openane.models.experts import feed_forward
from openane.models.layers import CheckpointParameters, ModelLayers
from openane.models.steps import CacheWriter, ModelStep

LOCAL = "local_"
"""How inputs begin that are for layers whose window slides."""
PLACES = {"keys": 3, "values": 2}
"""The axis along which the states' tokens lie."""


def state_shapes(config: Config, tokens: int) -> dict[str, tuple[int, int, int, int]]:
    """Of `keys` and `values` of so many tokens, as states and as a step's outputs."""
    outer = config.layers, config.kv_heads
    return {"keys": (*outer, config.head_size, tokens), "values": (*outer, tokens, config.head_size)}


def slides(config: Config, step: ModelStep) -> frozenset[int]:
    """The layers whose window is shorter than what a step may see."""
    return config.sliding if config.window is not None and step.context > config.window else frozenset()


def turning(config: Config) -> dict[str, Rope]:
    """The rotary positions of a step, by the beginning of the names of its inputs."""
    if config.positions != "rotary":
        return {}
    local = config.sliding - config.unturned if config.local_rope is not None else frozenset()
    whole = frozenset(range(config.layers)) - config.unturned - local
    found = {"": config.rope} if whole else {}
    return found | ({LOCAL: config.local_rope} if local and config.local_rope is not None else {})


def masks(config: Config, step: ModelStep) -> dict[str, int | None]:
    """The masks of a step by name, and the window of each."""
    local = slides(config, step)
    found: dict[str, int | None] = {"mask": None} if len(local) < config.layers else {}
    return found | ({f"{LOCAL}mask": config.window} if local else {})


def head_name(config: Config) -> str:
    """The weight that scores the vocabulary."""
    return "embedding.weight" if config.tied else "head.weight"


def build(parameters: CheckpointParameters, step: ModelStep) -> Graph:
    """The step as a graph.

    Inputs, fp16: `embeddings` [1, tokens, width], `mask` [1, 1, tokens, seen + tokens] (columns: the cache, then the
    new tokens; with CacheWriter.ENGINE the cache alone, new tokens in their places, [1, 1, tokens, seen]; [1, heads,
    ...] where scores fall with the distance), for rotary positions `cosines` and `sines` [1, 1, tokens, head size], for
    CacheWriter.ENGINE `put` [1, 1, seen, tokens] (1 where a token goes). Layers whose window slides have a `local_mask`
    where a text may be longer than it, and `local_cosines` and `local_sines` where they turn by another base. Outputs:
    `logits` [1, tokens, vocabulary] if asked for, `new_keys` and `new_values` (as the states, for the new tokens)
    unless the engine places them, `hidden` [1, tokens, width] where nothing else is left.
    """
    return _Step(parameters, step).graph()


class _Step:
    def __init__(self, parameters: CheckpointParameters, step: ModelStep) -> None:
        config = self.config = parameters.config
        builder = self.builder = model_graph(step.name)
        self.step, self.layers = step, ModelLayers(builder, parameters, step.tokens)
        tokens, on_engine = step.tokens, step.placement is CacheWriter.ENGINE
        self.x = builder.input("embeddings", "fp16", (1, tokens, config.width))
        columns, count = step.seen + (0 if on_engine else tokens), config.heads if config.positions == "alibi" else 1
        self.masks = {name: builder.input(name, "fp16", (1, count, tokens, columns)) for name in masks(config, step)}
        shape = (1, 1, tokens, config.head_size)
        self.turns = {name: (builder.input(f"{name}cosines", "fp16", shape),
                             builder.input(f"{name}sines", "fp16", shape)) for name in turning(config)}
        self.put = builder.input("put", "fp16", (1, 1, step.seen, tokens)) if on_engine else None
        self.states = {name: builder.state(name, "fp16", shape)
                       for name, shape in state_shapes(config, step.context).items()}
        self.held = {name: builder.read(state) for name, state in self.states.items()}
        self.adapted = Adapted(builder, config, step.slots) if step.slots else None
        self.new: dict[str, list[Value]] = {"keys": [], "values": []}

    def graph(self) -> Graph:
        x = self.layers.norm(self.x, "embedding.norm") if self.config.embedding_norm else self.x
        for layer in range(self.config.layers):
            x = self._layer(x, layer)
        outputs = {}
        if self.step.logits:
            normal = self.layers.norm(x, "norm")
            outputs["logits"] = self._scores(normal)
        for name, parts in self.new.items():
            whole = parts[0] if len(parts) == 1 else self.builder.single("concat", values=tuple(parts), axis=0)
            if self.put is None:
                outputs[f"new_{name}"] = whole
            else:
                self._rewrite(name, whole)
        return self.builder.finish(outputs or {"hidden": x})

    def _layer(self, x: Value, layer: int) -> Value:
        config = self.config
        before = self._before(x, layer, "norm1")
        attended = self._after(self._attention(before, layer), layer, "after1")
        if not config.parallel:
            x = self.builder.single("add", x=x, y=attended)
        hidden = before if config.one_norm else self._before(x, layer, "norm2")
        fed = self._after(self._feed_forward(hidden, layer), layer, "after2")
        both = self.builder.single("add", x=attended, y=fed) if config.parallel else fed
        return self.builder.single("add", x=x, y=both)

    def _before(self, x: Value, layer: int, norm: str) -> Value:
        return self.layers.norm(x, f"layers.{layer}.{norm}") if self.config.norms_before else x

    def _after(self, x: Value, layer: int, norm: str) -> Value:
        return self.layers.norm_after(x, f"layers.{layer}.{norm}") if self.config.norms_after else x

    def _scores(self, normal: Value) -> Value:
        """Scores of the vocabulary."""
        config, name = self.config, head_name(self.config)
        scores = self.layers.linear(normal, "head", {name: config.vocabulary},
                                    {name: config.logit_scale / (config.logit_cap or 1.0)}, "norm")
        return self.layers.capped(scores, config.logit_cap)

    def _attention(self, x: Value, layer: int) -> Value:
        config, layers, name = self.config, self.layers, f"layers.{layer}"
        sizes = {part: config.sizes[part][0] for part in GROUPS["attention"].parts}
        scales = {f"{name}.query.weight": config.query_scale}
        mixed = layers.linear(x, f"{name}.attention", {f"{name}.{part}.weight": size for part, size in sizes.items()},
                              scales, f"{name}.norm1")
        mixed = self._adapt(mixed, x, "attention", layer)
        if config.normed_rows:
            mixed = layers.normed_rows(mixed, name)
        heads = layers.heads(mixed, config.heads + 2 * config.kv_heads)
        turning = config.heads + config.kv_heads
        both, values = layers.part(heads, 1, 0, turning), layers.part(heads, 1, turning, heads.shape[1])
        if config.normed_heads:
            both = layers.normed_heads(both, name)
        if self.turns and layer not in config.unturned:
            both = layers.turned(both, *self.turns[LOCAL if LOCAL in self.turns and layer in config.sliding else ""])
        query, keys = layers.part(both, 1, 0, config.heads), layers.part(both, 1, config.heads, turning)
        seen = self._seen("keys", layers.turned_over(keys), layer), self._seen("values", values, layer)
        mask = self.masks[f"{LOCAL}mask" if layer in slides(config, self.step) else "mask"]
        rows, output = layers.attention(query, *seen, mask), f"{name}.output.weight"
        result = layers.linear(rows, f"{name}.output", {output: config.width}, {output: config.output_scale})
        return self._adapt(result, rows, "output", layer)

    def _feed_forward(self, x: Value, layer: int) -> Value:
        config, layers, name = self.config, self.layers, f"layers.{layer}"
        if self.adapted is None or config.experts is not None:
            return feed_forward(layers, x, name)

        def part(kind: str, source: Value, size: int) -> Value:
            after, weight = f"{name}.{config.feed_norm}" if kind == "up" else None, f"{name}.{kind}.weight"
            scale = config.output_scale if kind == "down" else 1.0
            made = layers.linear(source, f"{name}.{kind}", {weight: size}, {weight: scale}, after)
            return self._adapt(made, source, kind, layer)

        up = part("up", x, config.hidden)
        if not config.gated:
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
