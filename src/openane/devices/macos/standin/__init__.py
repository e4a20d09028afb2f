"""A stand-in for the macOS side of the engine, in Python, entered through real C function pointers.

It has the Objective-C runtime, Foundation, IOSurface, the private classes of AppleNeuralEngine and the C interfaces of
Espresso's graph runtime and of the compiler, as far as this package uses them, and computes what a model's MIL text
says by the operations' references: neither by this package's compiler nor by its simulator, which executes precompiled
programs only. It keeps the documented rules and fails on demand (`faults`). What it cannot show: the registers of
arm64, toll-free bridging, errors of the daemon, diagnostics of the system's compiler, exceptions other than by effect.
"""

from openane.devices.macos.standin.faults import Faults, parse_faults
from openane.devices.macos.standin.simulated import SimulatedSymbols, open_symbols

__all__ = ["Faults", "SimulatedSymbols", "open_symbols", "parse_faults"]
