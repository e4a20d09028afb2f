"""A thread for what waits for the engine, so that nobody else's calls wait for it."""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue
from threading import Lock, Thread


class EngineQueue:
    """Does one thing after another in a thread of its own."""

    def __init__(self, alarm: Callable[[BaseException], None]) -> None:
        """`alarm` is told, in that thread, of an error that something raised; the thread goes on."""
        self._alarm = alarm
        self._waiting: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._lock = Lock()
        self._count = 0
        self._thread = Thread(target=self._work, name="simulated engine", daemon=True)
        self._thread.start()

    @property
    def idle(self) -> bool:
        """Whether nothing waits or is being done."""
        return not self._count

    def put(self, action: Callable[[], None]) -> None:
        """Has something done after all that was put in before."""
        with self._lock:
            self._count += 1
        self._waiting.put(action)

    def close(self) -> None:
        """Returns when everything is done."""
        self._waiting.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (action := self._waiting.get()) is not None:
            try:
                action()
            except BaseException as error:  # a defect: handed to whoever watches over the loop
                self._alarm(error)
            finally:
                with self._lock:
                    self._count -= 1
