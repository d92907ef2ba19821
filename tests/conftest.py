"""Settings for every test: hypothesis profiles, and no file left behind in the home folder.

A law that fails shows the example it failed on as it was generated: hypothesis may take five minutes for each failing
law to find a smaller one. COLONNADE_EXAMPLES=shrink does that; COLONNADE_EXAMPLES=long tries 3,000 examples of each
law, and shrinks too.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings

from colonnade import limits

SetLimits = Callable[..., None]

_common: dict[str, Any] = {
    "deadline": None,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
}
_unshrunk = (Phase.explicit, Phase.reuse, Phase.generate, Phase.target)
# In CI the same examples in every run: a rare one must not keep finished work from landing. Elsewhere they are random.
_in_ci = bool(os.environ.get("CI"))
settings.register_profile("short", max_examples=60, phases=_unshrunk, derandomize=_in_ci, **_common)
# Without reuse: hypothesis takes an example that it kept for one that cannot be smaller.
_shrunk = (Phase.explicit, Phase.generate, Phase.target, Phase.shrink, Phase.explain)
settings.register_profile("shrink", max_examples=600, phases=_shrunk, **_common)
settings.register_profile("long", max_examples=3000, **_common)
settings.load_profile(os.environ.get("COLONNADE_EXAMPLES", "short"))

# Receipts of trusted indexes are kept in a cache folder: here in one that goes with the process.
_cache = tempfile.TemporaryDirectory(prefix="colonnade-cache-")
os.environ["COLONNADE_CACHE"] = _cache.name


@pytest.fixture
def set_limits() -> Iterator[SetLimits]:
    """Installs other limits until the test ends: `set_limits(piece_bytes=16)`."""
    with ExitStack() as stack:
        yield lambda **changes: stack.enter_context(limits.override(**changes))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown() -> Iterator[None]:
    """No test leaves h5py's lock with its thread: every other thread would wait for it without end."""
    yield
    h5py_objects = sys.modules.get("h5py._objects")
    if h5py_objects is not None and h5py_objects.phil._is_owned():
        while h5py_objects.phil._is_owned():
            h5py_objects.phil.release()
        pytest.fail("this test left the lock of h5py held")
