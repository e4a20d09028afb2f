"""How reductions add."""

from openane.experiments.forms import cancelling, one
from openane.experiments.record import Experiment, Hypothesis, Kind, Trial

EXPERIMENT = Experiment(
    "row_sums", "By what rule does a reduction add a row of 4096?", Kind.VALUES,
    ("rule/all/planar-sums", "fingerprint/reduce_sum/*"),
    (Trial("4096 numbers", one("reduce_sum", (8, 4096), axes=[-1], keep_dims=True)),
     Trial("cancelling", one("reduce_sum", (8, 4096), axes=[-1], keep_dims=True), cancelling)),
    (Hypothesis("double", "in double precision, as simulated"),
     Hypothesis("float32", "one after the other in float32", "sums float32"),
     Hypothesis("half", "one after the other in fp16", "sums half"),
     Hypothesis("tiles of four", "in tiles of four neighbours with a 12-bit window", "sums tiles-of-four"),
     Hypothesis("radix four", "by a tree of four, each sum in fp16", "sums radix-four"),
     Hypothesis("otherwise", "results are others", "store next", otherwise=True)),
    value=10)
