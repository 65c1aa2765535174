"""All methods by name, and `pose`, which makes a checked problem for one of them."""

from __future__ import annotations

from dataclasses import fields

from torch import nn

from trevision.data.noisy import NoisyData
from trevision.declared import declared_in
from trevision.files import did_you_mean
from trevision.methods.method import Method
from trevision.methods.options import Options
from trevision.methods.problem import Problem
from trevision.methods.schedules import SCHEDULES, Schedule, schedule_for
from trevision.networks.mlp import MLP
from trevision.prior import Prior, check_keeps_prior
from trevision.training.evaluate import Measure, measure_nothing
from trevision.training.inputs import NetworkMaker, set_up_by
from trevision.training.runtime import Runtime

METHODS: dict[str, Method] = declared_in("trevision.methods", Method)

RELEASED = "released"
"""The name of the schedules that methods declare themselves: the recipes of their authors."""


def find_method(name: str) -> Method:
    """The method of that name.

    Raises
    ------
    ValueError
        If there is no such method; the message lists all methods.
    """
    if name not in METHODS:
        hint = did_you_mean(name, METHODS)
        raise ValueError(f"method must be one of {', '.join(METHODS)}, got {name!r}{hint}")
    return METHODS[name]


def check_options(options: Options, method: str) -> None:
    """Raise a ValueError for an invalid option, or one that `method` does not use."""
    options.check()
    for name in (field.name for field in fields(Options)):
        if getattr(options, name) != getattr(Options, name):
            _check_taken(name, find_method(method))


def _check_taken(option: str, method: Method) -> None:
    if not method.takes(option):
        takers = ", ".join(other.name for other in METHODS.values() if other.takes(option))
        raise ValueError(f"{option} is a choice of {takers}, got method {method.name}; leave it out")


def check_schedule(name: str, method: str, source: str) -> None:
    """Raise a ValueError unless there is a schedule of that name for the method and the data set.

    Presets are for all methods and data. `released` is for methods that declare it, and their data sets.
    """
    presets = ", ".join(SCHEDULES)
    if name != RELEASED:
        if name not in SCHEDULES:
            hint = did_you_mean(name, (*SCHEDULES, RELEASED))
            raise ValueError(f"schedule must be one of {presets} or {RELEASED}, got {name!r}{hint}")
        return
    recipes = METHODS[method].released if method in METHODS else {}
    if not recipes:
        having = " and ".join(other.name for other in METHODS.values() if other.released)
        raise ValueError(
            f"schedule {RELEASED} is for {having}, whose authors' recipes are known, got method {method}; "
            f"choose one of {presets}"
        )
    if source not in recipes:
        raise ValueError(
            f"schedule {RELEASED} of {method} is for {', '.join(recipes)}, got {source}; "
            f"choose one of {presets}"
        )


def schedule_of(
    name: str, method: str, source: str, rows: int, num_classes: int, network: str | None = None
) -> Schedule:
    """The schedule `name` of a method: its own if it is `released`, else a preset (`schedule_for`)."""
    check_schedule(name, method, source)
    if name == RELEASED:
        return METHODS[method].released[source](rows)
    return schedule_for(name, source, rows, num_classes, network)


def pose(
    method: str,
    data: NoisyData,
    *,
    make_network: NetworkMaker,
    standardise: nn.Module,
    schedule: Schedule,
    seed: int,
    runtime: Runtime,
    options: Options | None = None,
    prior: Prior | None = None,
    measure: Measure = measure_nothing,
) -> Problem:
    """Make a problem for a method, and check that its parts fit each other.

    Parameters
    ----------
    method : str
        The name of the method.
    data : NoisyData
        The data that the method sees.
    make_network : NetworkMaker
        Makes the network to train.
    standardise : nn.Module
        Shifts and scales the network's inputs.
    schedule : Schedule
        A preset or the user's own; `options` and the method's own estimator are applied to it here.
    seed : int
        Seed of initial weights, batches and folds.
    runtime : Runtime
        Devices, checkpoints, progress.
    options, prior
        The user's choices, and what is known of T.
    measure : Measure
        Extra numbers to record for every epoch.

    Returns
    -------
    Problem
        The problem.

    Raises
    ------
    ValueError
        If an option is invalid, unused by the method, or does not fit the number of classes.
    """
    options = options or Options()
    chosen = find_method(method)
    check_options(options, method)
    problem = Problem(
        data=data,
        make_network=set_up_by(data, standardise, _with_dropout(make_network, schedule.dropout)),
        standardise=standardise,
        schedule=schedule.with_options(options, chosen.own_estimator),
        seed=seed,
        runtime=runtime,
        options=options,
        prior=prior,
        measure=measure,
    )
    _check_classes(problem, chosen)
    _check_prior(problem, chosen)
    return problem


def _with_dropout(make_network: NetworkMaker, dropout: float) -> NetworkMaker:
    """The networks that `make_network` makes, with the schedule's dropout if they are of the kind `mlp`."""

    def made(number: int = 0) -> nn.Module:
        network = make_network(number)
        if isinstance(network, MLP):
            network.dropout = max(network.dropout, dropout)
        return network

    return made


def _check_classes(problem: Problem, method: Method) -> None:
    classes, most = problem.data.num_classes, method.most_classes
    if most is not None and classes > most:
        raise ValueError(f"method {method.name} is for up to {most} classes, got {classes}")
    if method.starts_from_estimate:
        _ = problem.estimator  # raises if it cannot handle so many classes


def _check_prior(problem: Problem, method: Method) -> None:
    prior = problem.prior
    if prior is None:
        return
    prior.check(problem.data.num_classes)
    _check_taken("prior", method)
    revision = problem.schedule.parameterisation if method.takes("revision") else "frozen"
    check_keeps_prior(revision)
    if prior.sparsity and revision != "simplex":
        raise ValueError(
            "prior sparse is a penalty on a T that is learnt, so it must go with forward-r or reweight-r "
            f"and revision simplex, got method {method.name} and revision {revision}"
        )
