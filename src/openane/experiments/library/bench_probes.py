"""The quick probes of `ane bench` that are one program, so that what it measures can be attested."""

from openane.bench.probes import PROBES, Probe
from openane.experiments.record import Experiment, Hypothesis, Kind, Trial
from openane.graph import Graph


def _trial(probe: Probe) -> Trial:
    def graph() -> Graph:
        return probe.graphs()[0]
    return Trial(f"{probe.group} {probe.name}"[:80], graph)


EXPERIMENT = Experiment(
    "bench_probes", "How long do the probes of 'ane bench' take?", Kind.TIMES,
    ("figure/*/dispatch", "figure/*/kernel", "figure/*/tile", "figure/*/clock"),
    tuple(_trial(probe) for probe in PROBES if probe.quick and probe.group != "fusion"),
    (Hypothesis("modelled", "as the timing model has it"),
     Hypothesis("half", "everything is half as fast", "rate clock*0.5; rate l2_clock*0.5; rate kernel*0.5; "
                "rate tile*0.5; rate dispatch*2"),
     Hypothesis("twice", "everything is twice as fast", "rate clock*2; rate l2_clock*2; rate kernel*2; rate tile*2; "
                "rate dispatch*0.5")),
    value=3)
