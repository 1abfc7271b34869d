"""Check the invariants of the design over an event log, from the records alone."""

from memspec_actors.telemetry.audit.auditor import Audit, Auditor, Checked, Violation, audit

__all__ = ["Audit", "Auditor", "Checked", "Violation", "audit"]
