"""Hints of the paths of coefficients."""

from openane.experiments.forms import linear, one
from openane.experiments.record import Experiment, Hypothesis, Kind, Trial

FIELDS = ("KernelDMA.*DMAConfig*.CrH",)

EXPERIMENT = Experiment(
    "words_coefficient_hints", "Does Apple's compiler state in these fields what ours does?", Kind.WORDS,
    ("field/*/KernelDMA.*DMAConfig*.CrH",),
    (Trial("product", linear(16, 64, 64, bias=True), fields=FIELDS),
     Trial("table", one("sigmoid", (1, 8, 16, 16)), fields=FIELDS)),
    (Hypothesis("as ours", "it states what our compiler states"),
     Hypothesis("otherwise", "it states something else", "take KernelDMA.CoeffDMAConfig[0].CrH=1", otherwise=True)),
    value=3, generations=("h14", "h15", "h16", "h17", "h18"))
