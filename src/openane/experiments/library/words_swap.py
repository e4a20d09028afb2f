"""Sources whose axes change places."""

from openane.experiments.families import words

EXPERIMENT = words(
    "words_swap", ("Common.Broadcast.FirstSwap", "Common.Broadcast.ActiveNE", "Common.Broadcast.PrimarySource"),
    ("elementwise", "runtime product"), "Common.Broadcast.FirstSwap=1")
