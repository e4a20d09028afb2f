"""What a failed call to the Linux driver means: its errno as one of the device errors.

The driver gives no reason with an errno; the reasons here are every check its source has (eiln/ane). A simulated one
tells the reason in the error's text. EINVAL is
`DeviceRejected`; ETIMEDOUT is `DeviceHung`; ENOMEM and ENOSPC are `BudgetExhausted`, as pages and device addresses are
what runs out; a missing node or permission is `DeviceUnavailable`; everything else is `SubmitFailed`.
"""

from __future__ import annotations

import errno
import os

from openane.devices.linux.interface import TIMEOUT_SECONDS, WINDOW_SIZE
from openane.errors import BudgetExhausted, DeviceError, DeviceHung, DeviceRejected, DeviceUnavailable, SubmitFailed

REASONS = {
    "BO_INIT": ("its padding is not 0", "the size is none the driver takes"),
    "BO_FREE": ("its padding is not 0", "the handle is none of this open file's (freed before, or by another process)"),
    "SUBMIT": ("no bytes, no number or no size of tasks", "channel 0 has no buffer, or channel 1 has one",
               "there is no bootstrap buffer", "a handle is none of this open file's",
               "the text fills its buffer: the driver wants fewer bytes than the buffer has"),
    "mmap": ("the offset is not the one BO_INIT gave", "more bytes than the buffer has"),
}
"""Why the driver answers EINVAL, by request."""

REMEDIES = {
    errno.ENOENT: "load the driver's module (modprobe ane), or name another device: 'ane devices' lists them",
    errno.ENODEV: "the module is loaded but found no engine: the device tree needs a node for it "
                  "(apple,t8103-ane or apple,t6000-ane)",
    errno.ENXIO: "the driver of this node was unloaded: load it again (modprobe ane)",
    errno.EACCES: "ask the administrator for access to the node, for instance by a udev rule that gives its group to "
                  "you; whoever has it can read every other client's tensors",
    errno.EPERM: "a sandbox or a security module forbids it: run outside of it, or allow the node there",
}
"""What helps when the device cannot be used, by errno."""


def failure(request: str, error: OSError, used: int = 0) -> DeviceError:
    """The error that a failed `request` (VERSION, BO_INIT, open, ...) is raised as; `used` are the bytes of device
    memory this device holds already."""
    code = error.errno or 0
    plain = os.strerror(code) if code else type(error).__name__
    text = error.strerror or plain
    told = text != plain  # a simulated driver says what is wrong
    if code == errno.EINVAL:
        known = REASONS.get(request, ("the driver gave no reason",))
        return DeviceRejected(request, (text,) if told else known)
    if code == errno.ETIMEDOUT:
        return DeviceHung(request, TIMEOUT_SECONDS, domain="errno", code=code, text=text if told else
                          "the driver gave up waiting for the engine, which it does not reset; later runs may fail too")
    if code in (errno.ENOMEM, errno.ENOSPC):
        return BudgetExhausted(f"bytes of device memory by this client, of those all share ({request}: {text})",
                               limit=WINDOW_SIZE, used=used,
                               remedy="close what is no longer needed; what killed processes have left comes back only "
                                      "when the driver's module is loaded anew")
    if code in REMEDIES:
        place = f" ({error.filename})" if error.filename else ""
        return DeviceUnavailable(f"{request}: {text}{place}", REMEDIES[code])
    return SubmitFailed(request, domain="errno", code=code, text=text)
