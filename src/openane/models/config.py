"""What a language model is made of, as a plain description: sizes, and what differs between families of models.

A family is a choice of these fields and of names of weights (`families`); the graph of a step is built from the fields
alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from openane.errors import FormatError, UnsupportedError

MOST = 1 << 24
"""No extent of a configuration is larger."""
Choice = TypeVar("Choice", bound=StrEnum)


def chosen(kind: type[Choice], value: str) -> Choice:
    """A choice given by itself or by its name. UnsupportedError for another one."""
    try:
        return kind(value)
    except ValueError:
        name = kind.__name__.lower()
        raise UnsupportedError(f"{name} {value!r}", "is none there is", limit=", ".join(kind)) from None


@dataclass(frozen=True, slots=True)
class Rope:
    """Rotary positions: `base` of the frequencies, and how they are stretched beyond the length trained on.

    `kind`: `default`, `linear` (all frequencies divided by `factor`), `llama3` (long waves divided, short ones kept,
    those between blended), `yarn` (blended by the number of turns within the original length; cosines and sines
    scaled), `dynamic` (the base grows with the length of the text; here with the model's whole context), `longrope`
    (each frequency divided by one of `short`, or of `long` for a context beyond the original length).

    `turned`: how many elements of a head are turned, its first ones (0: all). `neighbours`: whether a checkpoint has
    the two elements of a pair side by side; the rows of its weights are put in the order of halves when they are read.
    """

    base: float = 10000.0
    kind: str = "default"
    factor: float = 1.0
    low: float = 1.0
    high: float = 4.0
    original: int = 0
    attention: float | None = None
    truncated: bool = True
    turned: int = 0
    neighbours: bool = False
    short: tuple[float, ...] = ()
    long: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        bounds = {"base": (1.0, 1e30), "factor": (1e-6, 1e6), "low": (1e-6, 1e6), "high": (1e-6, 1e6)}
        for name, (above, most) in bounds.items():
            if not above < getattr(self, name) <= most:
                raise FormatError(f"{name} of rotary positions", expected=f"above {above:g}, up to {most:g}",
                                  found=getattr(self, name))


@dataclass(frozen=True, slots=True)
class Experts:
    """A feed-forward part that is divided among `count` experts, of which each token takes the `chosen` best by the
    scores of a router. `normalised`: whether the shares of the chosen ones are made to add up to 1. `shared`: hidden
    numbers of an expert that every token takes, scaled by a sigmoid of its own (0: there is none)."""

    count: int
    chosen: int
    normalised: bool = True
    shared: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.chosen <= self.count:
            raise FormatError("experts chosen per token", expected=f"1 to {self.count}", found=self.chosen)


@dataclass(frozen=True, slots=True)
class Config:
    """One model. `hidden` is the width inside the feed-forward part (of all experts together), `context` the longest
    text in tokens, `family` whose names its weights have.

    `biases` names the linear layers that have one (`query`, `key`, `value`, `output`, `gate`, `up`, `down`, `pooler`,
    `head`). `stops` are the tokens that end a text, `start` the one that begins it (None: none does).

    Normalisation: `norm` is `rms` or `layer`, `norm_vectors` what it has of `weight` and `bias`; it stands before
    attention and feed-forward (`norms_before`), after each and before the sum (`norms_after`), or both. `normed_heads`:
    whether queries and keys are normalised within each head before they are turned; `normed_rows`: over all heads.
    `embedding_norm`: whether embeddings are.

    Layers: `parallel` ones add attention and feed-forward to the same input (`one_norm`: and share one normalisation).
    `gated`: whether the feed-forward part has a gate. `experts`: how it is divided.

    Positions: `rotary`, `learned`, `alibi` (scores fall with the distance) or `none`. Layers of `unturned` have none.
    Layers of `sliding` see the last `window` tokens, and turn by `local_rope` where it is given.

    Factors: scores of attention are multiplied by `attention_scale` (None: by the root of 1 / head size), embeddings by
    `embedding_scale`, what a layer adds by `residual_scale`, scores of the vocabulary by `logit_scale`. Caps: numbers x
    become cap * tanh(x / cap), scores of attention for `score_cap` and of the vocabulary for `logit_cap`.
    `stream_scale`: the sum that goes from layer to layer is held times this, for families whose sums are beyond what
    fp16 holds; normalisation takes it out again.
    """

    family: str
    vocabulary: int
    width: int
    layers: int
    heads: int
    kv_heads: int
    head_size: int
    hidden: int
    context: int
    epsilon: float = 1e-5
    activation: str = "silu"
    tied: bool = False
    biases: frozenset[str] = frozenset()
    rope: Rope = Rope()
    types: int = 0
    stops: tuple[int, ...] = ()
    start: int | None = None
    normed_heads: bool = False
    normed_rows: bool = False
    norm: str = "rms"
    norm_vectors: frozenset[str] = frozenset({"weight"})
    norms_before: bool = True
    norms_after: bool = False
    parallel: bool = False
    one_norm: bool = False
    gated: bool = True
    experts: Experts | None = None
    embedding_norm: bool = False
    positions: str = "rotary"
    unturned: frozenset[int] = frozenset()
    window: int | None = None
    sliding: frozenset[int] = frozenset()
    local_rope: Rope | None = None
    attention_scale: float | None = None
    embedding_scale: float = 1.0
    residual_scale: float = 1.0
    logit_scale: float = 1.0
    stream_scale: float = 1.0
    score_cap: float | None = None
    logit_cap: float | None = None

    def __post_init__(self) -> None:
        extents = {name: getattr(self, name) for name in
                   ("vocabulary", "width", "layers", "heads", "kv_heads", "head_size", "hidden", "context")}
        for name, extent in extents.items():
            if type(extent) is not int or not 0 < extent <= MOST:
                raise FormatError(f"{name} of a language model", expected=f"1 to {MOST}", found=extent)
        if self.heads % self.kv_heads:
            raise FormatError("heads must be a multiple of the key and value heads", expected=self.kv_heads,
                              found=self.heads)
        turned = self.rope.turned
        if self.positions == "rotary" and (self.head_size % 2 or turned % 2 or turned > self.head_size):
            raise FormatError("rotary positions need an even head size, and an even part of it to turn",
                              expected="even numbers", found=f"{turned or self.head_size} of {self.head_size}")

    @property
    def decoder(self) -> bool:
        """Whether it continues texts (and keeps keys and values of what came before)."""
        return self.family != "bert"

    @property
    def score_scale(self) -> float:
        """What scores of attention are multiplied by, in front of the cap where there is one."""
        scale = float(self.head_size ** -0.5) if self.attention_scale is None else self.attention_scale
        return scale / (self.score_cap or 1.0)

    @property
    def query_scale(self) -> float:
        """What query weights are multiplied by, so that the products are scaled scores. Queries that are normalised
        would lose it: there the gains have it."""
        return 1.0 if self.normed_heads or self.normed_rows else self.score_scale

    @property
    def output_scale(self) -> float:
        """What the weights of parts that are added are multiplied by; behind them, gains of normalisations have it."""
        return 1.0 if self.norms_after else self.residual_scale * self.stream_scale

    @property
    def feed_norm(self) -> str:
        """The normalisation in front of the feed-forward part."""
        return "norm1" if self.one_norm else "norm2"

    @property
    def norm_names(self) -> tuple[str, ...]:
        """The normalisations of every layer over its whole width."""
        before = ("norm1",) if self.one_norm else ("norm1", "norm2")
        return (before if self.norms_before else ()) + (("after1", "after2") if self.norms_after else ())

    @property
    def sizes(self) -> dict[str, tuple[int, int]]:
        """Outputs and inputs of every matrix of a layer, by its name."""
        query, key = self.heads * self.head_size, self.kv_heads * self.head_size
        sizes = {"query": (query, self.width), "key": (key, self.width), "value": (key, self.width),
                 "output": (self.width, query), "up": (self.hidden, self.width), "down": (self.width, self.hidden)}
        if self.gated:
            sizes["gate"] = sizes["up"]
        if self.experts is not None:
            sizes["router"] = self.experts.count, self.width
            if self.experts.shared:
                sizes["share"] = 1, self.width
        return sizes

    @property
    def weights(self) -> int:
        """Elements of all weight matrices and tables (a tied table counts once)."""
        layer = sum(outputs * inputs for outputs, inputs in self.sizes.values())
        tables = self.vocabulary * self.width * (2 if self.decoder and not self.tied else 1)
        return self.layers * layer + tables
