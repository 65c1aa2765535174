"""One self-contained HTML page from a finished run, and the way back from its corrections to the labels."""

from trevision.report.corrections import Applied, apply_corrections
from trevision.report.page import Written, write_report

__all__ = ["Applied", "Written", "apply_corrections", "write_report"]
