"""Networks whose numbers fp16 does not hold, on the simulator's exact arithmetic beside onnxruntime in fp32.

    python benchmarks/ranges.py [--seeds 50]

The nine classifiers whose topologies the onnx package ships, with the weights they ship: constants, with which
activations reach 1e31. Then two of them with drawn weights, every layer's times a power of two from 2^-8 to 2^8, drawn
for each seed. Prints cosines, tasks as-is and rescaled and what the rescaling costs of the time modelled for an M1,
and exits with 1 where a cosine is below 0.999 or the cost above 5 %. Needs onnx and onnxruntime.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

import numpy as np
import onnx
import onnxruntime
from networks import topologies
from onnx import ModelProto, numpy_helper

import openane as ane
from openane.timing import program_time, rates

LEAST_COSINE = 0.999
LARGEST_COST = 0.05
"""How much longer a rescaled network may take."""
CHIP = "m1"
SCALED = ("squeezenet", "shufflenet")
LARGEST_EXPONENT = 8
DEVICE = "simulator?arithmetic=exact"


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=50, metavar="N", help="of each scaled network (default: 50)")
    options = parser.parse_args()
    onnxruntime.set_default_logger_severity(3)
    image = topologies.images(1, 5)
    wrong = 0
    for name in topologies.NAMES:
        found = compared(onnx.load(topologies.FOLDER / f"light_{name}.onnx"), image)
        wrong += not found.right
        print(f"ranges  {name} with the weights it ships: cosine {found.cosine:.6f}, {found.tasks} tasks, as-is "
              f"{found.before}, time {found.cost:+.2%}", flush=True)
    for name in SCALED:
        every = [compared(scaled(topologies.topology(name), seed), image) for seed in range(options.seeds)]
        wrong += sum(not each.right for each in every)
        print(f"ranges  {name}, {len(every)} seeds of layers times 2^-8 to 2^8: least cosine "
              f"{min(each.cosine for each in every):.6f}, tasks times "
              f"{np.mean([each.tasks / each.before for each in every]):.3f}, time "
              f"{min(each.cost for each in every):+.2%} to {max(each.cost for each in every):+.2%}", flush=True)
    return int(wrong > 0)


@dataclass(frozen=True, slots=True)
class Compared:
    """The cosine of the first output to onnxruntime's, the tasks, those of the model as it is, and by which share
    longer the rescaled one takes."""

    cosine: float
    tasks: int
    before: int
    cost: float

    @property
    def right(self) -> bool:
        """Whether both are as they should be."""
        return self.cosine >= LEAST_COSINE and self.cost <= LARGEST_COST


def scaled(model: ModelProto, seed: int) -> ModelProto:
    """The model with the weights and bias of every convolution and product times a power of two of its own."""
    rng = np.random.default_rng(seed)
    held = {initialiser.name: initialiser for initialiser in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type in ("Conv", "Gemm"):
            factor = np.float32(2.0 ** int(rng.integers(-LARGEST_EXPONENT, LARGEST_EXPONENT + 1)))
            for name in node.input[1:]:
                if name in held:
                    held[name].CopyFrom(numpy_helper.from_array(numpy_helper.to_array(held[name]) * factor, name))
    return model


def compared(model: ModelProto, image: np.ndarray) -> Compared:
    """The model as the engine computes it, beside onnxruntime."""
    session = onnxruntime.InferenceSession(model.SerializeToString())
    port = session.get_inputs()[0].name
    wanted = session.run(None, {port: image})[0].ravel()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        onnx.save(model, Path(folder) / "model.onnx")
        graph = ane.load_graph(Path(folder) / "model.onnx")
    compiled, plain = (ane.compile(graph, allow_host=False, precision=precision) for precision in ("safe", "as-is"))
    found = ane.run(compiled, {port: image}, DEVICE)[compiled.outputs[0].name].ravel().astype(np.float64)
    cosine = float(found @ wanted / (np.linalg.norm(found) * np.linalg.norm(wanted)))
    tasks, before = (sum(len(program.tasks) for program in each.programs) for each in (compiled, plain))
    seconds = [sum(program_time(program, rates(CHIP)).seconds for program in each.programs)
               for each in (compiled, plain)]
    return Compared(cosine, tasks, before, seconds[0] / seconds[1] - 1)


if __name__ == "__main__":
    sys.exit(main())
