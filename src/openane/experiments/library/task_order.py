"""Tasks that read what the task before them wrote."""

from openane.experiments.forms import chain
from openane.experiments.record import Experiment, Hypothesis, Kind, Trial

EXPERIMENT = Experiment(
    "task_order", "Does a task wait for the one before it where it reads its result?", Kind.VALUES,
    ("field/*/TileDMADst.DMAConfig.Dependency", "field/*/TileDMASrc.DMAConfig.DependencyInterval",
     "field/*/TileDMASrc.SecondDMAConfig.DependencyInterval"),
    (Trial("five in a row", chain((1, 8, 16, 16), ("reduce_sum", {"axes": [-1], "keep_dims": True}), ("exp", {}),
                ("transpose", {"perm": [0, 2, 1, 3]}), ("softmax", {"axis": 1}))),),
    (Hypothesis("as simulated", "results are the simulator's, bit for bit"),
     Hypothesis("late", "it reads what lay there before", "race"),
     Hypothesis("otherwise", "results are others", "store next", otherwise=True)),
    value=9)
