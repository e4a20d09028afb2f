"""Questions that owners of an engine can settle by running something: what is asked, what each answer would look like.

An experiment is a module of `library` with an `EXPERIMENT`. `attest` runs experiments and writes one file; `judge`
says which hypotheses a file supports.
"""

from openane.experiments.record import Experiment, Hypothesis, Kind, Risk, Trial
from openane.experiments.shelf import experiments, find_experiment

__all__ = ["Experiment", "Hypothesis", "Kind", "Risk", "Trial", "experiments", "find_experiment"]
