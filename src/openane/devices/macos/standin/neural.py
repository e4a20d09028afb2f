"""The classes of the AppleNeuralEngine framework that run a graph: descriptor, in-memory model, surfaces, request.

What they check is what projects that drive them report; where those disagree, a fault chooses. An in-memory model
expects its text and weight files in a directory of its own before it is compiled, and adds `net.plist` and `data`.
Ports are numbered in alphabetical order of their names; a request that has them in another order runs and gives wrong
data.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from openane.devices.macos.standin.definitions import Class, ClassDefinition, Instance, Method, ObjectiveCException
from openane.devices.macos.standin.foundation import array, dictionary, lookup, number, require, string
from openane.devices.macos.standin.models import TYPES, StandinPort
from openane.devices.macos.standin.precompiled import CLIENT_METHODS, model_at
from openane.devices.macos.standin.running import (
    Descriptor,
    FileModel,
    InMemoryModel,
    RequestObject,
    compile_model,
    evaluate_model,
    fail,
    load_model,
    model_of,
    temporary_directory,
    unload_model,
)
from openane.devices.macos.standin.runtime import Runtime
from openane.devices.macos.symbols import NEURAL_ENGINE

CHAINING_CODE = 15


def _descriptor(runtime: Runtime, text: Any, weights: Any, plist: bool) -> Instance:
    content = require(text, "NSData", "the network")
    if weights is None:
        raise ObjectiveCException("NSInvalidArgumentException", "the dictionary of weights must not be nil")
    files: dict[str, bytes] = {}
    for key, entry in require(weights, "NSDictionary", "the weights").value:
        data = lookup(require(entry, "NSDictionary", "a weight"), "data")
        files[require(key, "NSString", "the path of a weight").value] = require(data, "NSData", "data").value
        offset = lookup(entry, "offset")
        if offset is None or offset.value != 0:
            runtime.problem("a weight was given without offset 0")
    return runtime.made("_ANEInMemoryModelDescriptor", Descriptor(content.value, files, plist), [content, weights])


def _model(runtime: Runtime, kind: Class, descriptor: Any) -> Instance | None:
    if descriptor is None:
        return None
    value = require(descriptor, "_ANEInMemoryModelDescriptor", "the descriptor").value
    directory = Path(temporary_directory(runtime)) / value.identifier
    return runtime.made(kind.name, InMemoryModel(value, directory), [descriptor])


def attributes(runtime: Runtime, me: Instance) -> Instance:
    """-modelAttributes"""
    model: InMemoryModel | FileModel = me.value
    if model.compiled is None or model.state != "loaded" or runtime.faults.no_attributes:
        return dictionary(runtime, {})
    lists = {"LiveInputList": model.compiled.inputs, "LiveOutputList": model.compiled.outputs}
    status = {name: array(runtime, [_live(runtime, port) for port in ports]) for name, ports in lists.items()}
    network = dictionary(runtime, {"Name": string(runtime, "main"), **status})
    return dictionary(runtime, {"NetworkStatusList": array(runtime, [network])})


def _live(runtime: Runtime, port: StandinPort) -> Instance:
    batches, channels, depth, height, width = port.extents
    batch, plane, deep, row, _ = port.strides
    numbers = {"Batches": batches, "Channels": channels, "Depth": depth, "Height": height, "Width": width,
               "BatchStride": batch, "PlaneStride": plane, "DepthStride": deep, "RowStride": row, "Interleave": 1}
    texts = {"Symbol": port.name, "Name": port.name, "Type": TYPES[port.dtype]}
    return dictionary(runtime, {**{key: string(runtime, text) for key, text in texts.items()},
                                **{key: number(runtime, value) for key, value in numbers.items()}})


def _surface(runtime: Runtime, kind: Class, handle: int) -> Instance | None:
    surface = runtime.instance(handle)
    if surface is None:
        return None
    return runtime.made(kind.name, require(surface, "IOSurface", "the surface"), [surface])


def _request(*names: str) -> Any:
    """A factory of requests whose arguments are the fields `names`."""
    def make(runtime: Runtime, kind: Class, *values: Any) -> Instance:
        given = dict(zip(names, values, strict=True))
        lists = {}
        for name in ("inputs", "input_indices", "outputs", "output_indices"):
            lists[name] = list(require(given[name], "NSArray", name).value)
        for each in lists["inputs"] + lists["outputs"]:
            require(each, "_ANEIOSurfaceObject", "an element of inputs and outputs")
        for each in lists["input_indices"] + lists["output_indices"]:
            require(each, "NSNumber", "an index")
        if given.get("procedure") is not None:
            require(given["procedure"], "NSNumber", "procedureIndex")
        statistics = given.get("statistics")
        if statistics is not None:
            require(statistics, "NSArray", "perfStats")
        request = RequestObject(
            [each.value.value for each in lists["inputs"]], [each.value for each in lists["input_indices"]],
            [each.value.value for each in lists["outputs"]], [each.value for each in lists["output_indices"]],
            list(statistics.value) if statistics is not None else [])
        return runtime.made(kind.name, request, [each for each in values if each is not None])
    return make


_FIELDS = {"Inputs": "inputs", "inputIndices": "input_indices", "outputs": "outputs",
           "outputIndices": "output_indices", "weightsBuffer": "weights", "perfStats": "statistics",
           "procedureIndex": "procedure"}


def _request_methods() -> Mapping[str, Method]:
    found = {}
    for extra in ((), ("weightsBuffer",), ("perfStats",), ("weightsBuffer", "perfStats")):
        words = ["Inputs", "inputIndices", "outputs", "outputIndices", *extra, "procedureIndex"]
        selector = "requestWith" + "".join(f"{word}:" for word in words)
        found[selector] = Method("@@:" + "@" * len(words), _request(*(_FIELDS[word] for word in words)))
    return found


def _statistics(runtime: Runtime, me: Instance) -> Instance | None:
    if not runtime.faults.statistics or not me.value.hardware_time:
        return None
    return runtime.made("_ANEPerformanceStats", [me.value.hardware_time])


def _map(runtime: Runtime, me: Instance, request: Any, cache: bool, out: int) -> bool:
    model = model_of(me)
    if model.state != "loaded":
        return fail(runtime, out, 1, "mapIOSurfacesWithRequest: the model is not loaded")
    model.mapped.add(require(request, "_ANERequest", "the request").handle)
    return True


def _unmap(runtime: Runtime, me: Instance, request: Any) -> None:
    handle = require(request, "_ANERequest", "the request").handle
    if handle not in model_of(me).mapped:
        runtime.problem("surfaces were unmapped that were not mapped")
    model_of(me).mapped.discard(handle)


def _connection(runtime: Runtime, kind: Class) -> Instance:
    if kind.name not in runtime.shared:
        runtime.shared[kind.name] = runtime.make(kind.name)
    return runtime.shared[kind.name]


def _process(runtime: Runtime, me: Instance, request: Any, model: Any, qos: int, queue: int, identifier: Any,
             options: Any, value: int, out: int) -> bool:
    done = evaluate_model(runtime, require(model, "_ANEInMemoryModel", "the model"), qos, request, out)
    if value:
        ctypes.c_bool.from_address(value).value = done
    return done


def _refuse_chain(runtime: Runtime, out: int) -> bool:
    return fail(runtime, out, CHAINING_CODE, "prepareChainingWithModel: the request was refused")


_MODEL = ClassDefinition("_ANEInMemoryModel", NEURAL_ENGINE, factory={
    "inMemoryModelWithDescriptor:": Method("@@:@", _model),
}, methods={
    "hexStringIdentifier": Method("@@:", lambda runtime, me: string(runtime, me.value.descriptor.identifier)),
    "localModelPath": Method("@@:", lambda runtime, me: string(runtime, str(me.value.directory))),
    "compileWithQoS:options:error:": Method("B@:I@^@", lambda runtime, me, qos, options, out:
                                            compile_model(runtime, me, qos, options, out)),
    "loadWithQoS:options:error:": Method("B@:I@^@", lambda runtime, me, qos, options, out:
                                         load_model(runtime, me, qos, options, out)),
    "unloadWithQoS:error:": Method("B@:I^@", lambda runtime, me, qos, out: unload_model(runtime, me, out)),
    "evaluateWithQoS:options:request:error:": Method("B@:I@@^@", lambda runtime, me, qos, options, request, out:
                                                     evaluate_model(runtime, me, qos, request, out)),
    "mapIOSurfacesWithRequest:cacheInference:error:": Method("B@:@B^@", _map),
    "unmapIOSurfacesWithRequest:": Method("v@:@", _unmap),
    "modelAttributes": Method("@@:", attributes),
    "program": Method("@@:", lambda _, me: me.value.program),
    "perfStatsMask": Method("I@:", lambda _, me: me.value.mask),
    "setPerfStatsMask:": Method("v@:I", lambda _, me, mask: setattr(me.value, "mask", mask)),
    "compiledModelExists": Method("B@:", lambda _, me: (me.value.directory / "data").exists()),
    "queueDepth": Method("c@:", lambda _, me: 127),
})

_CLIENT = ClassDefinition("_ANEClient", NEURAL_ENGINE, factory={
    "sharedConnection": Method("@@:", _connection),
}, methods={
    **CLIENT_METHODS,
    "evaluateRealTimeWithModel:options:request:error:": Method(
        "B@:@@@^@", lambda runtime, _, model, options, request, out: evaluate_model(runtime, model, 0, request, out)),
    "evaluateWithModel:options:request:qos:error:": Method(
        "B@:@@@I^@", lambda runtime, _, model, options, request, qos, out:
        evaluate_model(runtime, model, qos, request, out)),
    "doEvaluateDirectWithModel:options:request:qos:error:": Method(
        "B@:@@@I^@", lambda runtime, _, model, options, request, qos, out:
        evaluate_model(runtime, model, qos, request, out)),
    "beginRealTimeTask": Method("B@:", lambda _, me: False),
    "endRealTimeTask": Method("B@:", lambda _, me: False),
    "prepareChainingWithModel:options:chainingReq:qos:error:": Method(
        "B@:@@@I^@", lambda runtime, _, model, options, request, qos, out: _refuse_chain(runtime, out)),
})

CLASSES = (
    ClassDefinition("_ANEInMemoryModelDescriptor", NEURAL_ENGINE, factory={
        "modelWithMILText:weights:optionsPlist:": Method("@@:@@@", lambda runtime, _, text, weights, plist:
                                                         _descriptor(runtime, text, weights, False)),
        "modelWithNetworkDescription:weights:optionsPlist:": Method(
            "@@:@@@", lambda runtime, _, text, weights, plist: _descriptor(runtime, text, weights, True)),
    }, methods={"hexStringIdentifier": Method("@@:", lambda runtime, me: string(runtime, me.value.identifier))}),
    _MODEL,
    ClassDefinition("_ANEIOSurfaceObject", NEURAL_ENGINE, factory={
        "objectWithIOSurface:": Method("@@:^{__IOSurface=}", _surface),
    }, methods={"ioSurface": Method("^{__IOSurface=}@:", lambda _, me: me.value)}),
    ClassDefinition("_ANERequest", NEURAL_ENGINE, factory=_request_methods(), methods={
        "perfStats": Method("@@:", _statistics),
        "validate": Method("B@:", lambda _, me: len(me.value.inputs) == len(me.value.input_indices)
                           and len(me.value.outputs) == len(me.value.output_indices))}),
    _CLIENT,
    ClassDefinition("_ANEModel", NEURAL_ENGINE, factory={
        "modelAtURL:key:": Method("@@:@@", model_at),
    }, methods={"modelAttributes": Method("@@:", attributes)}),
    ClassDefinition("_ANEProgramForEvaluation", NEURAL_ENGINE, methods={
        "processRequest:model:qos:qIndex:modelStringID:options:returnValue:error:": Method(
            "B@:@@Ii@@^B^@", _process)}),
    ClassDefinition("_ANEPerformanceStats", NEURAL_ENGINE, factory={
        "alloc": Method("@@:", lambda _, kind: None),
        "new": Method("@@:", lambda _, kind: None),
        "statsWithHardwareExecutionNS:": Method("@@:Q", lambda runtime, kind, time: runtime.made(kind.name, [time])),
    }, methods={
        "hwExecutionTime": Method("Q@:", lambda _, me: me.value[0]),
        "perfCounterData": Method("@@:", lambda _, me: None),
        "pStatsRawData": Method("@@:", lambda _, me: None),
        "statType": Method("I@:", lambda _, me: 0),
    }),
)
"""Every class, parents first."""
