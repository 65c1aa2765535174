"""Workers for the runs of a grid: processes on this machine, or a Ray cluster."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Protocol

from trevision.reproduce.job import Done, Job, work

CRASHED = "WorkerCrashed"
LOCAL = "local"
# Libraries read these variables when they are loaded, so they are set around the start of a process.
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")


class Workers(Protocol):
    """Workers that do one job each at a time."""

    count: int

    @property
    def free(self) -> int: ...

    def start(self, job: Job) -> None: ...

    def wait(self, seconds: float) -> list[tuple[Job, Done]]:
        """The jobs that have ended. Waits at most about this many seconds for the first."""
        ...

    def close(self) -> None: ...


@dataclass
class _Process:
    process: Any
    pipe: Connection
    job: Job | None = None


class ProcessPool:
    """Processes of one thread each on this machine.

    Not concurrent.futures: there the death of one process fails every job of the pool, here only its own.
    """

    def __init__(self, count: int) -> None:
        if count < 1:
            raise ValueError(f"workers must be at least 1, got {count}")
        self.count = count
        self._context = multiprocessing.get_context("spawn")
        self._processes: list[_Process] = []

    @property
    def free(self) -> int:
        return self.count - sum(worker.job is not None for worker in self._processes)

    def start(self, job: Job) -> None:
        while True:
            idle = next((worker for worker in self._processes if worker.job is None), None) or self._spawn()
            try:
                idle.pipe.send(job)
            except (BrokenPipeError, ConnectionResetError):  # it died while it was idle
                self._bury(idle)
                continue
            idle.job = job
            return

    def wait(self, seconds: float) -> list[tuple[Job, Done]]:
        busy = {worker.pipe: worker for worker in self._processes if worker.job is not None}
        ended = []
        for pipe in wait(list(busy), seconds):
            worker = busy[pipe]  # type: ignore[index]
            job = worker.job
            assert job is not None
            try:
                done = worker.pipe.recv()
                worker.job = None
            except (EOFError, OSError):
                done = Done(CRASHED, self._bury(worker))
            ended.append((job, done))
        return ended

    def close(self) -> None:
        for worker in list(self._processes):
            worker.process.kill()
            self._bury(worker)

    def _spawn(self) -> _Process:
        mine, theirs = self._context.Pipe()
        process = self._context.Process(target=_serve, args=(theirs,), daemon=True)
        with _environment(ONE_THREAD):
            process.start()
        theirs.close()  # so that the pipe ends when the process ends
        self._processes.append(_Process(process, mine))
        return self._processes[-1]

    def _bury(self, worker: _Process) -> str:
        """Remove an ended process from the pool; return how it ended."""
        worker.process.join(10)
        code = worker.process.exitcode
        worker.pipe.close()
        self._processes.remove(worker)
        if code is not None and code < 0:
            name = signal.Signals(-code).name
            hint = "; the system does that when memory runs out" if name == "SIGKILL" else ""
            return f"its worker process was ended by {name}{hint}"
        return f"its worker process ended with status {code}"


def _serve(pipe: Connection) -> None:
    """The loop of a worker process: do jobs and report how each ended, until the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    threading.Thread(target=_end_with_parent, daemon=True).start()
    while True:
        try:
            job = pipe.recv()
        except EOFError:
            return
        pipe.send(work(job))


def _end_with_parent() -> None:
    """End when the parent is killed. Otherwise this process would go on writing to the same folders."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


@contextlib.contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


class RayCluster:
    """A Ray cluster, existing or started here, with one CPU (and, on GPUs, one GPU) per job.

    All machines need the same version of trevision, and must see the folder of results under the same path.
    """

    def __init__(self, address: str, count: int | None = None, gpus: int = 0) -> None:
        try:
            import ray
        except ImportError:
            raise ValueError(
                "--ray needs Ray, which is not installed: pip install 'trevision[ray]'"
            ) from None
        self._ray = ray
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "error", "configure_logging": False}
        if address == LOCAL:
            # Ray would look for a cluster already running at "auto"; "local" always starts its own.
            ray.init(address="local", num_cpus=count, include_dashboard=False, **quiet)
        else:
            try:
                ray.init(address=address, **quiet)
            except (ConnectionError, ValueError, RuntimeError) as error:
                reason = " ".join(str(error).split()) or type(error).__name__
                raise ValueError(
                    f"ray must be local or the address of a cluster, {address}: {reason}"
                ) from None
        cpus = max(1, int(ray.cluster_resources().get("CPU", 1)))
        self.count = cpus if count is None else min(count, cpus)
        # A worker that dies is recorded as a failed run, so Ray must not try again.
        self._work = ray.remote(num_cpus=1, num_gpus=gpus, max_retries=0)(work)
        self._jobs: dict[Any, Job] = {}

    @property
    def free(self) -> int:
        return self.count - len(self._jobs)

    def start(self, job: Job) -> None:
        self._jobs[self._work.remote(job)] = job

    def wait(self, seconds: float) -> list[tuple[Job, Done]]:
        ended, _ = self._ray.wait(list(self._jobs), num_returns=1, timeout=seconds)
        results = []
        for reference in ended:
            try:
                done = self._ray.get(reference)
            except self._ray.exceptions.RayError as error:
                first_line = (str(error).strip().splitlines() or ["no message"])[0]
                done = Done(CRASHED, f"its Ray worker ended: {type(error).__name__}: {first_line}")
            results.append((self._jobs.pop(reference), done))
        return results

    def close(self) -> None:
        self._ray.shutdown()


def make_workers(count: int | None, ray: str | None, gpus: int = 0) -> Workers:
    """The workers for the options --workers and --ray.

    Parameters
    ----------
    count
        Number of jobs at a time; None for one per core.
    ray
        The address of a Ray cluster, "local" to start one, or None for processes of this machine.
    gpus
        GPUs per job of a Ray cluster.

    Returns
    -------
    Workers
    """
    if count is not None and count < 1:
        raise ValueError(f"workers must be at least 1, got {count}")
    if ray is not None:
        return RayCluster(ray, count if count is not None or ray != LOCAL else usable_cores(), gpus)
    return ProcessPool(count or usable_cores())


def usable_cores() -> int:
    """The cores this process may use, which can be fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def absolute(path: Path | None) -> Path | None:
    """An absolute path, for workers with another working directory."""
    return None if path is None else path.expanduser().absolute()
