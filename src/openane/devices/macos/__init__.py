"""The neural engine of Macs: `macos`, `macos?route=e5rt&qos=33`, `macos?runtime=simulated` (a stand-in, anywhere).

Options: `runtime` system or simulated; `route` memory or e5rt (models by their graphs), or precompiled (engine
programs); `path` 1 to 4, how an in-memory model is evaluated; `qos` 0 to 63; `timeout` seconds of a run;
`compile_timeout` seconds of compiling and loading; `worker` on, or off to have the runtime in this process; `inject`
failures of the stand-in.
"""

from __future__ import annotations

import platform as python_platform
import sys
from collections.abc import Mapping

from openane.devices.macos.device import MacDevice, info_of, require_mac
from openane.devices.macos.file_device import FileDevice
from openane.devices.macos.hosting import HostOptions
from openane.devices.macos.routes import ROUTES
from openane.devices.macos.symbols import SystemSymbols
from openane.devices.options import choose, refuse_unknown, seconds, whole
from openane.devices.protocol import DeviceInfo
from openane.errors import DeviceError, DeviceUnavailable

OPTIONS = ("runtime", "route", "path", "qos", "timeout", "compile_timeout", "worker", "inject")
DEFAULTS = HostOptions()


def open_kind(target: str, options: Mapping[str, str]) -> MacDevice:
    """See `openane.devices.DeviceKind`."""
    if target:
        raise DeviceError(f"a Mac has one neural engine, 'macos', and no target {target!r}")
    refuse_unknown("macos", options, OPTIONS)
    runtime = choose(options, "runtime", ("system", "simulated"), DEFAULTS.runtime)
    if "inject" in options and runtime == "system":
        raise DeviceError("inject=... is for the stand-in: add runtime=simulated")
    route = choose(options, "route", list(ROUTES), DEFAULTS.route)
    return (FileDevice if route == "precompiled" else MacDevice)(HostOptions(
        runtime, options.get("inject", ""), route, whole(options, "path", DEFAULTS.path, 1, 4),
        whole(options, "qos", DEFAULTS.qos, 0, 63),
        seconds(options, "timeout", DEFAULTS.timeout), seconds(options, "compile_timeout", DEFAULTS.compile_timeout),
    ), choose(options, "worker", ("on", "off"), "on") == "on")


def discover() -> tuple[DeviceInfo, ...]:
    """The engine of this Mac."""
    try:
        require_mac(sys.platform, python_platform.machine())
    except DeviceUnavailable:
        return ()
    return (info_of(SystemSymbols().platform, DEFAULTS),)
