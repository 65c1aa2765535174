"""One learning method a file, each a straight line of named stages."""

from __future__ import annotations

from trevision.files import did_you_mean
from trevision.methods import (
    backward,
    co_teaching,
    decoupling,
    forward,
    gce,
    mentornet,
    recursive,
    reweight,
    sce,
    standard,
    t_revision,
    tv,
    volminnet,
)
from trevision.methods.cross_fit import cross_fit, with_out_of_sample
from trevision.methods.problem import Learned, Method, Options, OutOfSample, Problem, network_seed
from trevision.methods.schedules import SCHEDULES, Schedule, schedule_for

METHODS: dict[str, Method] = {
    "standard": standard.fit,
    "decoupling": decoupling.fit,
    "mentornet": mentornet.fit,
    "co-teaching": co_teaching.fit,
    "gce": gce.fit,
    "sce": sce.fit,
    "volminnet": volminnet.fit,
    "tv": tv.fit,
    "forward": forward.fit,
    "backward": backward.fit,
    "reweight": reweight.fit,
    "forward-r": t_revision.fit_forward,
    "reweight-r": t_revision.fit_reweight,
    "recursive": recursive.fit,
}


def find_method(name: str) -> Method:
    """The method of that name; the error for another name lists those there are."""
    if name not in METHODS:
        hint = did_you_mean(name, METHODS)
        raise ValueError(f"method must be one of {', '.join(METHODS)}, got {name!r}{hint}")
    return METHODS[name]


__all__ = [
    "METHODS",
    "SCHEDULES",
    "Learned",
    "Method",
    "Options",
    "OutOfSample",
    "Problem",
    "Schedule",
    "cross_fit",
    "find_method",
    "network_seed",
    "schedule_for",
    "with_out_of_sample",
]
