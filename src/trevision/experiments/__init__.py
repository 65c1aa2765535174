"""Running one experiment, and what is made of finished ones."""

from trevision.experiments.run import Hardware, Settings, run

__all__ = ["Hardware", "Settings", "run"]
