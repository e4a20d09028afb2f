"""What people and programs read about a model: where its time goes, on which part of the engine, and why."""

from __future__ import annotations

from openane.report.document import as_csv, document, summary, table
from openane.report.profile import NumberKind, Profile, Row, profile
from openane.report.subject import ProfileSubject
from openane.report.trace import as_trace, trace

__all__ = [
           "NumberKind",
           "Profile",
           "ProfileSubject",
           "Row",
           "as_csv",
           "as_trace",
           "document",
           "profile",
           "summary",
           "table",
           "trace",
]
