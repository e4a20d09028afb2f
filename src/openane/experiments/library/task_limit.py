"""How many tasks a program may have."""

from openane.experiments.forms import chain
from openane.experiments.record import Experiment, Hypothesis, Kind, Trial

EXPERIMENT = Experiment(
    "task_limit", "Are programs of a hundred tasks taken?", Kind.INTERFACE,
    ("interface/tasks",),
    (Trial("tasks", chain((1, 4, 8, 8), *((("square", {}), ("exp", {})) * 40))),),
    (Hypothesis("taken", "they are taken"),
     Hypothesis("refused", "more than 40 tasks are refused", "refuse tasks>40")),
    value=5)
