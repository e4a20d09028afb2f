"""The planar engine's subtraction."""

from openane.experiments.forms import two
from openane.experiments.record import Experiment, Hypothesis, Kind, Trial

EXPERIMENT = Experiment(
    "subtraction", "Is the second operand negated where a task says so?", Kind.VALUES,
    ("field/*/PE.Cfg.NegateFirst",),
    (Trial("difference", two("sub", (1, 4, 8, 8))),),
    (Hypothesis("as simulated", "results are the simulator's, bit for bit"),
     Hypothesis("ignored", "operands are added", "reset Elementwise.subtract"),
     Hypothesis("otherwise", "results are others", "store next", otherwise=True),
     Hypothesis("hangs", "the engine does not end such a task", "hang Elementwise")),
    value=4)
