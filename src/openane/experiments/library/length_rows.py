"""reduce_l2_norm over rows: sums and what follows them."""

from openane.experiments.forms import one
from openane.experiments.record import Experiment, Hypothesis, Kind, Trial

EXPERIMENT = Experiment(
    "length_rows", "By what rule do the sums inside reduce_l2_norm add?", Kind.VALUES,
    ("fingerprint/reduce_l2_norm/*", "rule/all/planar-sums", "inferred/*/0"),
    (Trial("rows of 768", one("reduce_l2_norm", (16, 768), axes=[-1], keep_dims=True)),),
    (Hypothesis("double", "in double precision, as simulated"),
     Hypothesis("half", "one after the other in fp16", "sums half"),
     Hypothesis("radix four", "by a tree of four, each sum in fp16", "sums radix-four"),
     Hypothesis("otherwise", "results are others", "store next", otherwise=True)),
    value=5)
