"""Products of small matrices on one thread.

A fit multiplies matrices of a few thousand rows thousands of times. Shared among threads, each product is
soon done and the threads mostly wait for each other: on a busy machine that takes many times longer. One
thread also gives the same bits whatever number of threads the user allows.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache

from threadpoolctl import ThreadpoolController


@cache
def _libraries() -> ThreadpoolController:
    # Found once, since the search takes longer than a small fit.
    return ThreadpoolController()


def one_thread() -> AbstractContextManager[object]:
    """Inside this context, linear algebra runs on one thread."""
    limited: AbstractContextManager[object] = _libraries().limit(limits=1, user_api="blas")
    return limited
