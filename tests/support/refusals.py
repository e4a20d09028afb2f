"""Submissions that a simulated driver refuses or does not end."""

from __future__ import annotations

import pytest
from support.driver_client import Client

from openane.devices.linux.interface import Submit
from openane.devices.simdriver import DriverError, FaultReport, ReportKind


def refused(client: Client, code: int, kind: ReportKind, request: Submit | None = None) -> FaultReport:
    """The report of a submission that fails with an errno for a kind of reason."""
    with pytest.raises(DriverError) as failed:
        client.submit(request)
    assert failed.value.errno == code, failed.value
    report = failed.value.reports[0]
    assert isinstance(report, FaultReport)
    assert report.kind is kind, report
    return report
