"""Roots behind reductions."""

from openane.experiments.forms import one
from openane.experiments.record import Experiment, Hypothesis, Kind, Trial

EXPERIMENT = Experiment(
    "reduction_root", "Does a reduction end with the root and the epsilon a task says?", Kind.VALUES,
    ("field/*/PE.Cfg.Root", "field/*/PE.Epsilon.Epsilon", "field/*/PE.FinalScale.FinalScale"),
    (Trial("length of rows", one("layer_norm", (16, 256), axes=[-1], epsilon=0.5)),),
    (Hypothesis("as simulated", "results are the simulator's, bit for bit"),
     Hypothesis("no epsilon", "nothing is added before the root", "reset Reduction.epsilon"),
     Hypothesis("no final scale", "sums are not divided", "reset Reduction.final_scale"),
     Hypothesis("otherwise", "results are others", "store next", otherwise=True),
     Hypothesis("hangs", "the engine does not end such a task", "hang Reduction")),
    value=4)
