"""The private classes of AppleNeuralEngine.framework this package calls: selectors and the types it knows them with.

Sources: several public projects that call them on macOS 15 to 26 and chips M1 to M5; none of it is documented. Where an
update changes one, the check before the first call says so.
"""

from __future__ import annotations

from collections.abc import Mapping

from openane.devices.macos.objc import Selector
from openane.record_classes import dataclass

DESCRIPTOR = "_ANEInMemoryModelDescriptor"
MODEL = "_ANEInMemoryModel"
SURFACE_OBJECT = "_ANEIOSurfaceObject"
REQUEST = "_ANERequest"
CLIENT = "_ANEClient"
EVALUATION_PROGRAM = "_ANEProgramForEvaluation"

FROM_MIL = Selector("modelWithMILText:weights:optionsPlist:", "@", "@", "@", "@")
"""NSData of UTF-8 text (an NSString ends the process), a dictionary that is never nil, nil."""
FROM_DESCRIPTOR = Selector("inMemoryModelWithDescriptor:", "@", "@")
IDENTIFIER = Selector("hexStringIdentifier", "@")
LOCAL_PATH = Selector("localModelPath", "@")
COMPILE = Selector("compileWithQoS:options:error:", "B", "I", "@", "^@")
LOAD = Selector("loadWithQoS:options:error:", "B", "I", "@", "^@")
UNLOAD = Selector("unloadWithQoS:error:", "B", "I", "^@")
ATTRIBUTES = Selector("modelAttributes", "@")
UNDERLYING = Selector("model", "@")
"""The model behind an in-memory model; the attributes may be its own."""
PROGRAM = Selector("program", "@")
STATISTICS_MASK = Selector("setPerfStatsMask:", "v", "I")
STATISTICS = Selector("perfStats", "@")
HARDWARE_TIME = Selector("hwExecutionTime", "Q")

WRAP = Selector("objectWithIOSurface:", "@", "^{__IOSurface=}")
MAKE_REQUEST = Selector("requestWithInputs:inputIndices:outputs:outputIndices:weightsBuffer:perfStats:procedureIndex:",
                        "@", "@", "@", "@", "@", "@", "@", "@")

CONNECTION = Selector("sharedConnection", "@")
EVALUATE = Selector("evaluateWithQoS:options:request:error:", "B", "I", "@", "@", "^@")
EVALUATE_REAL_TIME = Selector("evaluateRealTimeWithModel:options:request:error:", "B", "@", "@", "@", "^@")
PROCESS = Selector("processRequest:model:qos:qIndex:modelStringID:options:returnValue:error:", "B", "@", "@", "I", "i",
                   "@", "@", "^B", "^@")
EVALUATE_DIRECT = Selector("doEvaluateDirectWithModel:options:request:qos:error:", "B", "@", "@", "@", "I", "^@")

PATHS = {1: "evaluation by the model", 2: "real-time evaluation by the client", 3: "processing by the program",
         4: "direct evaluation by the client"}
"""The four ways to run a loaded model. Measured times differ little and not in one direction (one public project)."""


@dataclass(frozen=True, slots=True)
class Needed:
    """Methods of one class: of the class itself, and of its instances."""

    factory: tuple[Selector, ...] = ()
    methods: tuple[Selector, ...] = ()


NEEDED: Mapping[str, Needed] = {
    DESCRIPTOR: Needed(factory=(FROM_MIL,)),
    MODEL: Needed(factory=(FROM_DESCRIPTOR,), methods=(IDENTIFIER, COMPILE, LOAD, UNLOAD)),
    SURFACE_OBJECT: Needed(factory=(WRAP,)),
    REQUEST: Needed(factory=(MAKE_REQUEST,)),
}
"""What every run needs."""

NEEDED_BY_PATH: Mapping[int, Mapping[str, Needed]] = {
    1: {MODEL: Needed(methods=(EVALUATE,))},
    2: {CLIENT: Needed(factory=(CONNECTION,), methods=(EVALUATE_REAL_TIME,))},
    3: {MODEL: Needed(methods=(PROGRAM,)), EVALUATION_PROGRAM: Needed(methods=(PROCESS,))},
    4: {CLIENT: Needed(factory=(CONNECTION,), methods=(EVALUATE_DIRECT,))},
}
"""What the chosen way to run needs besides."""

OPTIONAL: Mapping[str, Needed] = {
    MODEL: Needed(methods=(LOCAL_PATH, ATTRIBUTES, UNDERLYING, STATISTICS_MASK)),
    REQUEST: Needed(methods=(STATISTICS,)),
}
"""What is used where it is there."""
