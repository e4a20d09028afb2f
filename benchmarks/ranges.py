"""Networks whose numbers fp16 does not hold, on the simulator's exact arithmetic beside onnxruntime in fp32.

    python benchmarks/ranges.py [--seeds 50]

The nine classifiers whose topologies the onnx package ships, with the weights they ship: constants, with which
activations reach 1e31. Then two of them with drawn weights, every layer's times a power of two from 2^-8 to 2^8, drawn
for each seed. Prints cosines, tasks as-is and rescaled, and exits with 1 where one is below 0.999. Needs onnx and
onnxruntime.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

import numpy as np
import onnx
import onnxruntime
from networks import topologies
from onnx import ModelProto, numpy_helper

import openane as ane

LEAST_COSINE = 0.999
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
        cosine, tasks, before = compared(onnx.load(topologies.FOLDER / f"light_{name}.onnx"), image)
        wrong += not cosine >= LEAST_COSINE
        print(f"ranges  {name} with the weights it ships: cosine {cosine:.6f}, {tasks} tasks, as-is {before}",
              flush=True)
    for name in SCALED:
        found = []
        for seed in range(options.seeds):
            cosine, tasks, before = compared(scaled(topologies.topology(name), seed), image)
            found.append((cosine, tasks / before))
            wrong += not cosine >= LEAST_COSINE
        print(f"ranges  {name}, {len(found)} seeds of layers times 2^-8 to 2^8: least cosine "
              f"{min(cosine for cosine, _ in found):.6f}, tasks times {np.mean([ratio for _, ratio in found]):.3f}")
    return int(wrong > 0)


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


def compared(model: ModelProto, image: np.ndarray) -> tuple[float, int, int]:
    """The cosine of the first output to onnxruntime's, the tasks, and those of the model as it is."""
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
    return cosine, *(sum(len(program.tasks) for program in each.programs) for each in (compiled, plain))


if __name__ == "__main__":
    sys.exit(main())
