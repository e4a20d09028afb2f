"""Products of two inputs."""

from openane.experiments.forms import two
from openane.experiments.record import Experiment, Hypothesis, Kind, Trial

EXPERIMENT = Experiment(
    "runtime_product", "Are matrices that both come with the data multiplied as simulated?", Kind.VALUES,
    ("inferred/*/0", "fingerprint/matmul/*"),
    (Trial("one product", two("matmul", (64, 64), (64, 64))),
     Trial("a batch", two("matmul", (4, 32, 32), (4, 32, 32)))),
    (Hypothesis("as simulated", "results are the simulator's, bit for bit"),
     Hypothesis("otherwise", "results are others", "store next", otherwise=True),
     Hypothesis("hangs", "the engine does not end such a task", "hang MatrixProduct"),
     Hypothesis("float32", "products are added in float32", "float32")),
    value=6)
