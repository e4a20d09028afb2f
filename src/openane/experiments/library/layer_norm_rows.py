"""layer_norm over rows: sums and what follows them."""

from openane.experiments.forms import one
from openane.experiments.record import Experiment, Hypothesis, Kind, Trial

EXPERIMENT = Experiment(
    "layer_norm_rows", "By what rule do the sums inside layer_norm add?", Kind.VALUES,
    ("fingerprint/layer_norm/*", "rule/all/planar-sums", "inferred/*/0"),
    (Trial("rows of 768", one("layer_norm", (16, 768), axes=[-1], epsilon=1e-5)),),
    (Hypothesis("double", "in double precision, as simulated"),
     Hypothesis("half", "one after the other in fp16", "sums half"),
     Hypothesis("radix four", "by a tree of four, each sum in fp16", "sums radix-four"),
     Hypothesis("otherwise", "results are others", "store next", otherwise=True)),
    value=7)
