"""The path of coefficients: bytes a second."""

from openane.bench.programs import chain_gemm
from openane.experiments.record import Experiment, Hypothesis, Kind, Trial
from openane.graph import Graph


def _chain() -> Graph:
    return chain_gemm(4, 1, 2048, 2048)


EXPERIMENT = Experiment(
    "kernel_bandwidth", "How fast do coefficients come in from memory?", Kind.TIMES,
    ("figure/*/kernel",),
    (Trial("32 MiB of weights", _chain),),
    (Hypothesis("modelled", "as the timing model has it"), Hypothesis("half", "half as fast", "rate kernel*0.5"),
     Hypothesis("a quarter", "a quarter as fast", "rate kernel*0.25")),
    value=8)
