"""Talks to the stand-in of the macOS runtime as a C program would, below the bridge this package uses."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from openane.devices.macos.graph_program import GraphPort, GraphProgram
from openane.devices.macos.standin import SimulatedSymbols
from openane.devices.macos.standin.runtime import end_process
from openane.devices.macos.symbols import CORE_FOUNDATION, ESPRESSO, FOUNDATION, IO_SURFACE, NEURAL_ENGINE, OBJC
from openane.formats.blob import BlobWriter

P = ctypes.c_void_p
WEIGHTS = "@model_path/weights/weight.bin"
PROTOTYPES = {"@": P, "^": P, "#": P, ":": P, "I": ctypes.c_uint32, "i": ctypes.c_int32, "Q": ctypes.c_uint64,
              "q": ctypes.c_int64, "B": ctypes.c_bool, "*": ctypes.c_char_p, "v": None}


@dataclass
class Client:
    """Typed messages and functions. `ended` collects the reasons for which the process would have ended, unless it
    `ends` indeed."""

    inject: str = ""
    ends: bool = False
    ended: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.symbols = SimulatedSymbols(self.inject, end_process if self.ends else self.ended.append)
        for library in (OBJC, FOUNDATION, CORE_FOUNDATION, IO_SURFACE, NEURAL_ENGINE):
            self.symbols.load(library)
        self.runtime = self.symbols.runtime

    def function(self, library: str, name: str, types: str) -> Any:
        """A C function by the letters of `PROTOTYPES`, the result first."""
        result, *arguments = (PROTOTYPES[letter] for letter in types)
        return ctypes.CFUNCTYPE(result, *arguments)(self.symbols.function(library, name))

    def call(self, library: str, name: str, types: str, *arguments: Any) -> Any:
        """Calls a C function."""
        return self.function(library, name, types)(*arguments)

    def cls(self, name: str) -> int:
        """A class; 0 when there is none."""
        return self.call(OBJC, "objc_getClass", "@*", name.encode()) or 0

    def selector(self, name: str) -> int:
        """A selector."""
        return int(self.call(OBJC, "sel_registerName", ":*", name.encode()))

    def send(self, receiver: int | str, selector: str, types: str, *arguments: Any) -> Any:
        """A message: `types` are the result's letter and those of the arguments."""
        result, *given = (PROTOTYPES[letter] for letter in types)
        address = self.symbols.function(OBJC, "objc_msgSend")
        target = self.cls(receiver) if isinstance(receiver, str) else receiver
        return ctypes.CFUNCTYPE(result, P, P, *given)(address)(target, self.selector(selector), *arguments)

    def push(self) -> int:
        """A pool."""
        return int(self.call(OBJC, "objc_autoreleasePoolPush", "^"))

    def pop(self, pool: int) -> None:
        """Drains it."""
        self.call(OBJC, "objc_autoreleasePoolPop", "v^", pool)

    def string(self, text: str) -> int:
        """An NSString."""
        return int(self.send("NSString", "stringWithUTF8String:", "@*", text.encode()))

    def text(self, string: int) -> str:
        """What an NSString says."""
        return str(self.send(string, "UTF8String", "*").decode())

    def data(self, content: bytes) -> int:
        """An NSData."""
        return int(self.send("NSData", "dataWithBytes:length:", "@*Q", content, len(content)))

    def number(self, value: int) -> int:
        """An NSNumber."""
        return int(self.send("NSNumber", "numberWithLongLong:", "@q", value))

    def array(self, items: Sequence[int]) -> int:
        """An NSArray."""
        return int(self.send("NSArray", "arrayWithObjects:count:", "@^Q", (P * len(items))(*items), len(items)))

    def dictionary(self, items: dict[int, int]) -> int:
        """An NSDictionary."""
        keys, values = ((P * len(items))(*side) for side in (items, items.values()))
        return int(self.send("NSDictionary", "dictionaryWithObjects:forKeys:count:", "@^^Q", values, keys, len(items)))

    def asked(self, receiver: int, selector: str, types: str, *arguments: Any) -> tuple[bool, str]:
        """A message whose last argument is an NSError**: its BOOL, and the error's text."""
        error = P(0)
        done = bool(self.send(receiver, selector, f"B{types}^", *arguments, ctypes.addressof(error)))
        return done, self.text(self.send(error.value, "localizedDescription", "@")) if error.value else ""

    def surface(self, size: int) -> int:
        """A flat IOSurface."""
        values = {"Width": size, "Height": 1, "BytesPerElement": 1, "BytesPerRow": size, "AllocSize": size}
        keys = {P.from_address(self.symbols.data(IO_SURFACE, f"kIOSurface{key}")).value or 0: self.number(value)
                for key, value in values.items()}
        return self.call(IO_SURFACE, "IOSurfaceCreate", "@@", self.dictionary(keys)) or 0

    def model(self, program: GraphProgram, folder: Path, weights: bool = True) -> int:
        """An in-memory model whose files are written, if `weights` with those of the weights."""
        entries = {self.string(path): self.dictionary({self.string("offset"): self.number(0),
                                                       self.string("data"): self.data(content)})
                   for path, content in program.weights.items()}
        descriptor = self.send("_ANEInMemoryModelDescriptor", "modelWithMILText:weights:optionsPlist:", "@@@@",
                               self.data(program.text.encode()), self.dictionary(entries), None)
        model = int(self.send("_ANEInMemoryModel", "inMemoryModelWithDescriptor:", "@@", descriptor))
        directory = Path(self.text(self.send(model, "localModelPath", "@")))
        assert directory.parent == folder
        directory.mkdir(exist_ok=True)
        (directory / "model.mil").write_text(program.text)
        for path, content in program.weights.items() if weights else ():
            file = directory / path.removeprefix("@model_path/")
            file.parent.mkdir(exist_ok=True)
            file.write_bytes(content)
        return model

    def request(self, inputs: Sequence[int], outputs: Sequence[int]) -> int:
        """A request on surfaces, numbered as given."""
        lists = []
        for side in (inputs, outputs):
            lists += [self.array([self.send("_ANEIOSurfaceObject", "objectWithIOSurface:", "@@", each)
                                  for each in side]), self.array([self.number(i) for i in range(len(side))])]
        return int(self.send(
            "_ANERequest", "requestWithInputs:inputIndices:outputs:outputIndices:weightsBuffer:perfStats:"
            "procedureIndex:", "@@@@@@@@", *lists, None, None, self.number(0)))

    def compile(self, model: int) -> tuple[bool, str]:
        """Compiles with the customary quality of service."""
        return self.asked(model, "compileWithQoS:options:error:", "I@", 21, self.dictionary({}))

    def load(self, model: int) -> tuple[bool, str]:
        """Loads."""
        return self.asked(model, "loadWithQoS:options:error:", "I@", 21, self.dictionary({}))

    def evaluate(self, model: int, request: int) -> tuple[bool, str]:
        """Runs."""
        return self.asked(model, "evaluateWithQoS:options:request:error:", "I@@", 21, self.dictionary({}), request)

    def write(self, surface: int, values: np.ndarray, row: int = 64) -> None:
        """Writes rows of a matrix, `row` bytes apart."""
        self.call(IO_SURFACE, "IOSurfaceLock", "i@I@", surface, 0, None)
        address = self.call(IO_SURFACE, "IOSurfaceGetBaseAddress", "@@", surface)
        for number, line in enumerate(values):
            ctypes.memmove(address + number * row, line.tobytes(), line.nbytes)
        self.call(IO_SURFACE, "IOSurfaceUnlock", "i@I@", surface, 0, None)

    def read(self, surface: int, shape: tuple[int, int], row: int = 64) -> np.ndarray:
        """Reads a matrix of halves."""
        self.call(IO_SURFACE, "IOSurfaceLock", "i@I@", surface, 1, None)
        address = self.call(IO_SURFACE, "IOSurfaceGetBaseAddress", "@@", surface)
        lines = [np.frombuffer(ctypes.string_at(address + number * row, shape[1] * 2), np.float16)
                 for number in range(shape[0])]
        self.call(IO_SURFACE, "IOSurfaceUnlock", "i@I@", surface, 1, None)
        return np.array(lines)

    def release(self, *handles: int) -> None:
        """CFRelease."""
        for each in handles:
            self.call(CORE_FOUNDATION, "CFRelease", "v@", each)

    def e5(self, name: str, types: str, *arguments: Any) -> int:
        """A function of Espresso's graph runtime: its code."""
        return int(self.call(ESPRESSO, f"e5rt_{name}", f"q{types}", *arguments))


def weighted_sum(rows: int = 3, columns: int = 8) -> GraphProgram:
    """y = b * a - c + w with a constant row w: inputs declared in another order than the alphabet's."""
    writer = BlobWriter()
    offset = writer.add("fp16", np.arange(columns, dtype=np.float16).tobytes())
    kind = f"tensor<fp16, [{rows}, {columns}]>"
    row = f"tensor<fp16, [1, {columns}]>"
    text = f"""program(1.3)
[buildInfo = dict<string, string>({{{{"coremlc-version", "3520.5.1"}}}})]
{{
  func main<ios18>({kind} c, {kind} a, {kind} b) {{
    {row} w = const()[name = string("w"),
      val = {row}(BLOBFILE(path = string("{WEIGHTS}"), offset = uint64({offset})))];
    {kind} t = mul(x = b, y = a)[name = string("t")];
    {kind} u = sub(x = t, y = c)[name = string("u")];
    {kind} y = add(x = u, y = w)[name = string("y")];
  }} -> (y);
}}
"""
    inputs = tuple(GraphPort(name, name, (rows, columns), "fp16", "fp16") for name in "cab")
    return GraphProgram("weighted_sum", text, {WEIGHTS: writer.finish()}, inputs,
                        (GraphPort("y", "y", (rows, columns), "fp16", "fp16"),), {})
