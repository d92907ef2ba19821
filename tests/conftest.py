"""Settings for every test: hypothesis profiles, and no file left behind in the home folder."""

from __future__ import annotations

import os
import tempfile
from typing import Any

from hypothesis import HealthCheck, settings

_common: dict[str, Any] = {
    "deadline": None,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
}
settings.register_profile("short", max_examples=60, **_common)
settings.register_profile("long", max_examples=3000, **_common)
settings.load_profile(os.environ.get("COLONNADE_EXAMPLES", "short"))

# Receipts of trusted indexes are kept in a cache folder: here in one that goes with the process.
_cache = tempfile.TemporaryDirectory(prefix="colonnade-cache-")
os.environ["COLONNADE_CACHE"] = _cache.name
