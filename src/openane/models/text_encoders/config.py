"""What an encoder of text is made of, read from a `config.json` as Hugging Face writes it.

Families differ in names, in where positions come from (a table, biases by distance, rotation), in what comes before
the layers (rows of another width), in layers that share weights, and in where normalisations stand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from openane.errors import FormatError, UnsupportedError
from openane.models.config_document import REMEDY, ConfigDocument, model_type, require_encoder, require_neutral


class EncoderTask(StrEnum):
    """What a checkpoint's last layers are for."""

    STATES = "states"
    CLASSIFY = "classify"
    TAG = "tag"
    ANSWER = "answer"


TASKS = {"Model": EncoderTask.STATES, "MaskedLM": EncoderTask.STATES, "PreTraining": EncoderTask.STATES,
         "SequenceClassification": EncoderTask.CLASSIFY, "TokenClassification": EncoderTask.TAG,
         "QuestionAnswering": EncoderTask.ANSWER}
"""The end of an architecture's name, and the task. What predicts masked words is left out: their states are given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextConfig:
    """What an encoder knows and is asked: tokens of its vocabulary, segments (0: it tells none apart), the longest
    text, a task and the names of its numbers."""

    kind: str
    vocabulary: int
    context: int
    types: int = 0
    task: EncoderTask = EncoderTask.STATES
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderConfig(TextConfig):
    """One encoder by rules. `rows` is the width of the tables' rows, `hidden` that inside the feed-forward part,
    `first` the row of the table of positions where a text begins (None: there is no table).

    `places` are the numbers under which a checkpoint has each layer's weights. `buckets`: how many biases by distance
    there are, `bases` and `windows` each layer's base of rotary positions and how far its tokens see (None: all).
    """

    width: int
    rows: int
    heads: int
    hidden: int
    epsilon: float
    activation: str
    places: tuple[str, ...]
    first: int | None = 0
    buckets: int = 0
    bases: tuple[float, ...] = ()
    windows: tuple[int | None, ...] = ()
    normed_first: bool = False
    pooled_by_mean: bool = False
    head_activation: str = "tanh"

    @property
    def head_size(self) -> int:
        """Elements of one head."""
        return self.width // self.heads


def of_huggingface(document: Mapping[str, Any]) -> EncoderConfig:
    """The configuration in a `config.json`. UnsupportedError for a family, task or variant that is not built here;
    FormatError when a number is missing or wrong."""
    kind = model_type(document, READERS, "no such encoder of text is described")
    require_encoder(ConfigDocument(document))
    require_neutral(document, ("layer_types",))
    return READERS[kind](ConfigDocument(document))


def task_of(document: Mapping[str, Any]) -> EncoderTask:
    """What the architecture of a `config.json` is for. UnsupportedError for a task that is not built here."""
    names = document.get("architectures") or ["Model"]
    name = str(names[0]) if isinstance(names, list) else str(names)
    ending = name.rpartition("For")[2] if "For" in name else "Model"
    if ending not in TASKS:
        raise UnsupportedError(f"the architecture {name}", "its task is not built here",
                               limit=", ".join(TASKS), found=ending, remedy=REMEDY)
    return TASKS[ending]


def _common(document: ConfigDocument, width: str = "hidden_size", heads: str = "num_attention_heads") -> dict[str, Any]:
    """What every family states."""
    found = {"kind": document.values["model_type"], "vocabulary": document.whole("vocab_size"),
             "width": document.whole(width), "heads": document.whole(heads), "task": task_of(document.values),
             "labels": document.labels()}
    if found["width"] % found["heads"]:
        raise FormatError(f"{width!r} of config.json", expected=f"a multiple of {found['heads']} heads",
                          found=found["width"])
    return found


def _bert(document: ConfigDocument) -> EncoderConfig:
    """BERT and those that changed names or rows: ELECTRA's rows may be narrower than its layers, RoBERTa's positions
    begin behind the padding's."""
    common = _common(document)
    kind = common["kind"]
    first = 0
    if kind in ("roberta", "xlm-roberta", "camembert"):
        first = document.whole("pad_token_id", 1, least=0) + 1
    elif kind == "mpnet":
        first = 2  # the family's code has padding at 1, whatever the configuration states
    positions = document.whole("max_position_embeddings", 512)
    if positions <= first:
        raise FormatError("'max_position_embeddings' of config.json", expected=f"above {first}", found=positions)
    return EncoderConfig(
        **common, rows=document.whole("embedding_size", common["width"]) if kind == "electra" else common["width"],
        hidden=document.whole("intermediate_size"), context=positions - first,
        epsilon=document.real("layer_norm_eps", 1e-12), activation=document.activation("hidden_act", "gelu"),
        places=tuple(map(str, range(document.whole("num_hidden_layers")))), first=first,
        types=0 if kind == "mpnet" else document.whole("type_vocab_size", 2),
        buckets=document.whole("relative_attention_num_buckets", 32, least=32) if kind == "mpnet" else 0,
        head_activation="gelu" if kind == "electra" else "tanh")


def _distilbert(document: ConfigDocument) -> EncoderConfig:
    common = _common(document, "dim", "n_heads")
    return EncoderConfig(**common, rows=common["width"], hidden=document.whole("hidden_dim"),
                         context=document.whole("max_position_embeddings", 512), epsilon=1e-12,
                         activation=document.activation("activation", "gelu"),
                         places=tuple(map(str, range(document.whole("n_layers")))), head_activation="relu")


def _albert(document: ConfigDocument) -> EncoderConfig:
    """Layers share weights: groups of `inner_group_num` layers, each group used for equally many layers."""
    common = _common(document)
    layers, groups = document.whole("num_hidden_layers"), document.whole("num_hidden_groups", 1)
    inner = document.whole("inner_group_num", 1)
    places = tuple(f"{int(layer / (layers / groups))}.albert_layers.{part}"
                   for layer in range(layers) for part in range(inner))
    return EncoderConfig(**common, rows=document.whole("embedding_size", 128),
                         hidden=document.whole("intermediate_size"),
                         context=document.whole("max_position_embeddings", 512),
                         epsilon=document.real("layer_norm_eps", 1e-12),
                         activation=document.activation("hidden_act", "gelu_new"), places=places,
                         types=document.whole("type_vocab_size", 2))


def _modernbert(document: ConfigDocument) -> EncoderConfig:
    common = _common(document)
    layers = document.whole("num_hidden_layers")
    every = document.whole("global_attn_every_n_layers", 3)
    given = document.values.get("layer_types")
    kinds = given if isinstance(given, list) and len(given) == layers else [
        "sliding_attention" if number % every else "full_attention" for number in range(layers)]
    known = {"sliding_attention": (_base(document, "sliding_attention", "local_rope_theta", 10000.0),
                                   document.whole("local_attention", 128) // 2),
             "full_attention": (_base(document, "full_attention", "global_rope_theta", 160000.0), None)}
    if unknown := [kind for kind in kinds if kind not in known]:
        raise UnsupportedError("layer_types of config.json", "is not described", limit=", ".join(known),
                               found=unknown[0], remedy=REMEDY)
    return EncoderConfig(**common, rows=common["width"], hidden=document.whole("intermediate_size"),
                         context=document.whole("max_position_embeddings", 8192),
                         epsilon=document.real("norm_eps", 1e-5),
                         activation=document.activation("hidden_activation", "gelu"),
                         places=tuple(map(str, range(layers))), first=None,
                         bases=tuple(known[kind][0] for kind in kinds), windows=tuple(known[kind][1] for kind in kinds),
                         normed_first=True, pooled_by_mean=document.values.get("classifier_pooling") == "mean",
                         head_activation=document.activation("classifier_activation", "gelu"))


def _base(document: ConfigDocument, kind: str, older: str, default: float) -> float:
    """The base of rotary positions of one kind of layer. UnsupportedError where they are stretched."""
    given = (document.values.get("rope_parameters") or {}).get(kind) or {}
    if given.get("rope_type", "default") != "default":
        raise UnsupportedError("rope_parameters of config.json", "positions of encoders are not stretched",
                               limit="default", found=given["rope_type"], remedy=REMEDY)
    return ConfigDocument(given).real("rope_theta", document.real(older, default))


READERS: Mapping[str, Callable[[ConfigDocument], EncoderConfig]] = {
    "bert": _bert, "roberta": _bert, "xlm-roberta": _bert, "camembert": _bert, "electra": _bert, "mpnet": _bert,
    "distilbert": _distilbert, "albert": _albert, "modernbert": _modernbert}
"""`model_type` of a config.json, and what reads it."""
