"""The Linux accel driver without Apple hardware: the same requests, errors and memory, the simulator as its engine."""

from openane.devices.simdriver.client import SocketKernel
from openane.devices.simdriver.driver import SimDriver
from openane.devices.simdriver.files import DriverFile
from openane.devices.simdriver.kernel import SimKernel
from openane.devices.simdriver.reports import DriverError, FaultReport, LeakReport, Report, ReportKind, StaleReport
from openane.devices.simdriver.server import DriverServer

__all__ = [
           "DriverError",
           "DriverFile",
           "DriverServer",
           "FaultReport",
           "LeakReport",
           "Report",
           "ReportKind",
           "SimDriver",
           "SimKernel",
           "SocketKernel",
           "StaleReport",
]
