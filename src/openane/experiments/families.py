"""Families of experiments, which ask one question of many things: what is the same for all of a family stands here."""

from __future__ import annotations

from typing import Any

from openane.experiments.forms import Make, conv, linear, one, two
from openane.experiments.record import Draw, Experiment, Hypothesis, Kind, Trial, normal

FORMS = {
    "elementwise": two("add", (1, 8, 16, 16)),
    "convolution": conv(16, 16, (16, 16), pad_type="same"),
    "product": linear(16, 64, 64, bias=True),
    "runtime product": two("matmul", (64, 64), (64, 64)),
    "three axes": conv(4, 4, (4, 8, 8), (3, 3, 3)),
    "pool": one("max_pool", (1, 8, 16, 16), kernel_sizes=[2, 2], strides=[2, 2], pad_type="valid"),
    "softmax": one("softmax", (16, 64), axis=-1),
    "norm": one("layer_norm", (16, 64), axes=[-1], epsilon=1e-5),
    "table": one("sigmoid", (1, 8, 16, 16)),
    "resize": one("upsample_bilinear", (1, 4, 8, 8), scale_factor_height=2.0, scale_factor_width=2.0),
}
"""Graphs by the names that `words` takes."""


def words(name: str, fields: tuple[str, ...], forms: tuple[str, ...], otherwise: str, value: int = 3,
          generations: tuple[str, ...] = ()) -> Experiment:
    """An experiment that decides the fields of some patterns (`PE.Cfg.*`) by what Apple's compiler states in them, for
    graphs of `FORMS`. `otherwise` is a field with a value that ours does not state in it (`PE.Cfg.ReluEn=1`)."""
    return Experiment(
        name, "Does Apple's compiler state in these fields what ours does?", Kind.WORDS,
        tuple(f"field/*/{pattern}" for pattern in fields),
        tuple(Trial(form, FORMS[form], fields=fields) for form in forms),
        (Hypothesis("as ours", "it states what our compiler states"),
         Hypothesis("otherwise", "it states something else", f"take {otherwise}", otherwise=True)),
        value=value, generations=generations)


def function(name: str, operation: str, draw: Draw = normal, value: int = 5, **settings: Any) -> Experiment:
    """An experiment about an operation that is a function of single elements, which a table or a root computes."""
    return Experiment(
        name, f"Does {operation} come out as the simulator reads its table or root?", Kind.VALUES,
        (f"fingerprint/{operation}/*", "rule/all/tables"),
        (Trial("one plane", one(operation, (1, 4, 16, 16), **settings), draw),),
        (Hypothesis("as simulated", "results are the simulator's, bit for bit"),
         Hypothesis("nothing", "nothing is stored", "store nothing"),
         Hypothesis("otherwise", "results are others", "store next", otherwise=True)),
        value=value)


def sums_inside(name: str, operation: str, rows: Make, value: int = 5) -> Experiment:
    """An experiment about the rule by which an operation adds rows of 768 numbers on its way."""
    return Experiment(
        name, f"By what rule do the sums inside {operation} add?", Kind.VALUES,
        (f"fingerprint/{operation}/*", "rule/all/planar-sums", "inferred/*/0"),
        (Trial("rows of 768", rows),),
        (Hypothesis("double", "in double precision, as simulated"),
         Hypothesis("half", "one after the other in fp16", "sums half"),
         Hypothesis("radix four", "by a tree of four, each sum in fp16", "sums radix-four"),
         Hypothesis("otherwise", "results are others", "store next", otherwise=True)),
        value=value)


__all__ = ["FORMS", "function", "sums_inside", "words"]
