"""Which files a convolution passes on its way to task words, and which a task word passes on its way to arithmetic.

`python journeys.py compile FOLDER` compiles a model of one convolution into FOLDER/model.hwx, `run` runs that file;
both print the files passed, in order, as JSON. Each takes an interpreter of its own: what an earlier compilation left
in caches would not be made again.

A file is passed when one of its functions is being called while the convolution takes a new form: when the function
makes the form, or calls what makes it. Forms on the way to words are the graph's node, the engine operation and its
coefficients, the plan of its tiles, register fields, bits of fields, and words; on the way to arithmetic the task as it
is read, register fields, the engine operation, the task and the weights as they are prepared, and sums. Functions that
only look (rules, reports, the verifier), tables that are made while a module is imported, and what is above the
command's own file are not passed.
"""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import openane

SOURCE = Path(openane.__file__).parent
GENERATED = "<string>"
"""Where Python says that a dataclass's own methods are written."""
WRITER = "record_classes.py"
"""The file that writes them when they are first called."""


def passed(command: str, makes_form: Callable[[FrameType, Any], bool], arguments: list[str]) -> list[str]:
    """Files of the package, below `command`, on the stack whenever `makes_form` says of a function that returns, and
    of what it returns, that a form was made. In the order in which they are reached."""
    from openane.cli import main

    found: dict[str, None] = {}

    def look(frame: FrameType, event: str, value: Any) -> None:
        if event != "return" or not makes_form(frame, value):
            return
        files: list[str] = []
        above: FrameType | None = frame
        while above is not None:
            path = Path(above.f_code.co_filename)
            if path.is_relative_to(SOURCE) and path.name != WRITER:
                if above.f_code.co_name == "<module>":
                    return
                files.append(path.relative_to(SOURCE).as_posix())
            above = above.f_back
        if command in files:
            found.update(dict.fromkeys(reversed(files[:len(files) - files[::-1].index(command)])))

    with contextlib.redirect_stdout(io.StringIO()):
        sys.setprofile(look)
        try:
            status = main(arguments)
        finally:
            sys.setprofile(None)
    assert status == 0
    return list(found)


def file_of(frame: FrameType) -> str:
    """The file of a function within the package; of another's something else."""
    name = frame.f_code.co_filename
    return name[len(str(SOURCE)) + 1:] if name.startswith(str(SOURCE)) else ""


def made(frame: FrameType) -> Any:
    """The object whose `__init__` a function is; None where it is something else."""
    written = frame.f_code.co_filename == GENERATED or file_of(frame)
    return frame.f_locals.get("self") if frame.f_code.co_name == "__init__" and written else None


def are_fields(value: Any) -> bool:
    """Whether these are register fields by name."""
    return isinstance(value, Mapping) and bool(value) and all(
        isinstance(name, str) and name.count(".") >= 2 for name in value)


def towards_words(frame: FrameType, value: Any) -> bool:
    """Whether the convolution takes a form on its way to words."""
    from openane.chips.chip import TaskFields
    from openane.chips.emit.rings import TilePlan
    from openane.chips.writer import TaskBody
    from openane.compiler.weights.pack import PackedCoefficients
    from openane.engine import Coefficients, Convolution
    from openane.graph import Node
    from openane.program import Task

    maker, thing = file_of(frame), made(frame)
    if isinstance(thing, Node):
        return getattr(thing, "op", None) == "conv"
    records = PackedCoefficients, Coefficients, Convolution, TilePlan, TaskFields, TaskBody, Task
    if isinstance(thing, records) or (maker and are_fields(value)):
        return True
    return (maker, frame.f_code.co_name) in {("registers/field.py", "encode"), ("chips/stream.py", "draft"),
                                             ("chips/stream.py", "completed")}


def towards_arithmetic(frame: FrameType, value: Any) -> bool:
    """Whether a task's words take a form on their way to arithmetic."""
    from openane.chips.chip import TaskFields
    from openane.engine import Convolution
    from openane.program import Task
    from openane.simulator.convolution import ConvolutionTask
    from openane.simulator.neural_engine import WeightedTask
    from openane.simulator.weights import ConvolutionWeights

    maker, thing = file_of(frame), made(frame)
    if isinstance(thing, (Task, TaskFields, Convolution, ConvolutionTask, WeightedTask, ConvolutionWeights)):
        return True
    return maker.startswith("simulator/") and isinstance(value, np.ndarray) and "sums" in frame.f_code.co_name


def write_model(path: Path) -> None:
    """An ONNX model of one 3x3 convolution of 4 channels to 8."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    weight = np.random.default_rng(0).standard_normal((8, 4, 3, 3)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "weight"], ["y"], pads=[1, 1, 1, 1])], "one_convolution",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 8, 8, 8])],
        [numpy_helper.from_array(weight, "weight")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)


def measured(kind: str, folder: Path) -> list[str]:
    """The files passed, as a new interpreter finds them. `compile` before `run`."""
    done = subprocess.run([sys.executable, __file__, kind, str(folder)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return list(json.loads(done.stdout))


def main(kind: str, folder: Path) -> list[str]:
    """The files passed, as this interpreter finds them."""
    program = str(folder / "model.hwx")
    if kind == "compile":
        write_model(folder / "model.onnx")
        return passed("cli/compile.py", towards_words,
                      ["compile", str(folder / "model.onnx"), "-o", program, "--no-cache"])
    return passed("cli/run.py", towards_arithmetic, ["run", program, "--output-dir", str(folder)])


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], Path(sys.argv[2]))))
