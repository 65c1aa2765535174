"""How many labels are wrong, from a few dozen rows that a person looks at: whatever the noise is.

`plan` draws the rows, `intervals` counts with intervals that hold for few rows, `estimate` tells what the
answers say. Pure: no files. docs/audit.md derives it.
"""

from trevision.audit.estimate import AuditEstimate, audit_estimate
from trevision.audit.intervals import Interval, count_interval
from trevision.audit.plan import AuditPlan, audit_plan

__all__ = ["AuditEstimate", "AuditPlan", "Interval", "audit_estimate", "audit_plan", "count_interval"]
