"""Tasks that hand tensors over through memory."""

from openane.experiments.forms import chain
from openane.experiments.record import Experiment, Hypothesis, Kind, Trial

EXPERIMENT = Experiment(
    "task_order_memory", "Does a task see in memory what the task before it has written?", Kind.VALUES,
    ("field/*/TileDMADst.DMAConfig.BypassEOW",),
    (Trial("large intermediates", chain((1, 64, 128, 160), ("exp", {}), ("transpose", {"perm": [0, 1, 3, 2]}),
                ("square", {}), ("reduce_max", {"axes": [-1], "keep_dims": True}))),),
    (Hypothesis("as simulated", "results are the simulator's, bit for bit"),
     Hypothesis("late", "it reads what lay there before", "race"),
     Hypothesis("otherwise", "results are others", "store next", otherwise=True)),
    value=8)
