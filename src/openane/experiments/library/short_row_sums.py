"""What a narrow adder loses."""

from openane.experiments.forms import one, peaks
from openane.experiments.record import Experiment, Hypothesis, Kind, Trial

EXPERIMENT = Experiment(
    "short_row_sums", "Are ones lost beside 4096 when a reduction adds?", Kind.VALUES,
    ("rule/all/tiles-of-four", "fingerprint/reduce_sum/*"),
    (Trial("ones beside 4096", one("reduce_sum", (8, 64), axes=[-1], keep_dims=True), peaks),),
    (Hypothesis("double", "in double precision, as simulated"),
     Hypothesis("half", "one after the other in fp16", "sums half"),
     Hypothesis("tiles of four", "in tiles of four neighbours with a 12-bit window", "sums tiles-of-four"),
     Hypothesis("radix four", "by a tree of four, each sum in fp16", "sums radix-four"),
     Hypothesis("otherwise", "results are others", "store next", otherwise=True)),
    value=10)
