"""The runtime in a process of its own, restarted when it hangs, dies or has compiled as much as a process may.

The caller survives what ctypes cannot catch; a run that does not end is killed; models come back by themselves the next
time they are used. Tensors lie in memory both processes share, so that a run moves no more than a few words.
"""

from __future__ import annotations

import os
from itertools import count
from threading import RLock

import numpy as np

from openane.devices.macos.graph_program import GraphProgram
from openane.devices.macos.hosting import HostOptions
from openane.devices.macos.messages import WorkerRequest
from openane.devices.macos.process import WorkerProcess
from openane.devices.macos.routes import COMPILATIONS, RunFacts
from openane.devices.macos.shared_memory import SharedMemory, needed, tensors
from openane.devices.macos.symbols import Platform
from openane.errors import AneError, BudgetExhausted, DeviceError, DeviceRejected, DeviceUnavailable, SubmitFailed


class Worker:
    """See `Host`. Requests of several threads are done one after the other."""

    def __init__(self, options: HostOptions) -> None:
        """Starts the process. Errors as `WorkerProcess`."""
        self._options, self._lock, self._owner = options, RLock(), os.getpid()
        self._process = WorkerProcess(options)
        self.platform: Platform = self._process.platform
        self._models: dict[int, HostedThere] = {}
        self._numbers = count()
        self._open = True

    def load(self, program: GraphProgram) -> HostedThere:
        """See `Host.load`. BudgetExhausted when more models are loaded than one process can compile."""
        with self._lock:
            self._require_open()
            if len(self._models) >= COMPILATIONS:
                raise BudgetExhausted("models loaded at once", limit=COMPILATIONS, used=len(self._models),
                                      remedy="close models that are not used any more")
            made = HostedThere(self, next(self._numbers), program)
            try:
                self._place(made)
            except BaseException:
                made.memory.close()
                raise
            self._models[made.number] = made
            return made

    def run(self, model: HostedThere) -> RunFacts:
        """Runs a model once; loads it again first when its process is gone."""
        with self._lock:
            self._require_open()
            if model.process is not self._process or not self._process.alive:
                self._place(model)
            try:
                facts = self._process.ask(f"a run of model {model.program.name!r}", self._options.timeout,
                                          WorkerRequest.RUN, model.number)
            except SubmitFailed:  # a failed run is reported to make later ones fail until the process ends
                self._process.close()
                raise
            assert isinstance(facts, RunFacts)
            return facts

    def unload(self, model: HostedThere) -> None:
        """Unloads a model where it is loaded."""
        with self._lock:
            self._models.pop(model.number, None)
            if os.getpid() == self._owner and model.process is self._process and self._process.alive:
                self._process.ask(f"unloading model {model.program.name!r}", self._options.timeout,
                                  WorkerRequest.UNLOAD, model.number)

    def close(self) -> None:
        """See `Host.close`."""
        with self._lock:
            self._open = False
            self._process.close()
            for model in list(self._models.values()):
                model.close()

    def _place(self, model: HostedThere) -> None:
        """Compiles and loads a model in the current process, or in a new one where that has no room or is gone."""
        if not self._process.alive or self._process.compilations >= COMPILATIONS:
            self._process.close()
            self._process = WorkerProcess(self._options)
        try:
            self._load(self._process, model)
        except DeviceRejected:
            if self._process.compilations <= 1:
                raise
            self._place_anew(model)

    def _place_anew(self, model: HostedThere) -> None:
        """Tries a refused model in a new process: a used-up one says no more than that compiling failed. The new one
        takes over where it succeeds."""
        fresh = WorkerProcess(self._options)
        try:
            self._load(fresh, model)
        except AneError:
            fresh.close()
            raise
        self._process.close()
        self._process = fresh

    def _load(self, process: WorkerProcess, model: HostedThere) -> None:
        process.compilations += 1
        process.ask(f"compiling model {model.program.name!r}", self._options.compile_timeout, WorkerRequest.LOAD,
                    model.number, model.program, model.memory.size, descriptor=model.memory.descriptor)
        model.process = process

    def _require_open(self) -> None:
        if os.getpid() != self._owner:
            raise DeviceUnavailable("the device was opened before this process was forked",
                                    "open it after the fork, or start processes with the 'spawn' method")
        if not self._open:
            raise DeviceError("the device is closed")


class HostedThere:
    """See `Hosted`."""

    def __init__(self, worker: Worker, number: int, program: GraphProgram) -> None:
        """A program not loaded yet, with memory for its tensors."""
        self.number, self.program = number, program
        self.memory = SharedMemory(needed(program))
        self.inputs, self.outputs = tensors(program, self.memory.bytes)
        self.process: WorkerProcess | None = None
        self._worker = worker

    def run(self) -> RunFacts:
        """See `Hosted.run`."""
        if self.memory.descriptor < 0:
            raise DeviceError("the model is closed")
        return self._worker.run(self)

    def close(self) -> None:
        """See `Hosted.close`."""
        if self.memory.descriptor < 0:
            return
        try:
            self._worker.unload(self)
        finally:
            self.process, self.inputs, self.outputs = None, {}, {}
            self.memory.bytes = np.empty(0, np.uint8)  # the last of the mapping
            self.memory.close()
