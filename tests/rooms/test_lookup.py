"""Strings looked up among many: by looking through them, and by their hashes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from colonnade.columns.strings import WORTH_HASHING, TextLookup


@pytest.mark.parametrize("n_strings", [0, 1, 50, WORTH_HASHING, 3 * WORTH_HASHING])
@pytest.mark.parametrize("offset", [0, 3])
def test_all_places_of_a_text(n_strings: int, offset: int) -> None:
    """Equal strings are all found, the first time and later; what is not there is not."""
    chance = np.random.default_rng(1)
    texts = [f"word {code}" for code in chance.integers(0, max(n_strings // 2, 1), n_strings + offset).tolist()]
    texts += ["", "größe", "with\0nul", ""]
    strings = pa.array(texts).slice(offset)
    lookup = TextLookup(strings)
    for text in ["", "word 0", "word", "größe", "with\0nul", "with", *texts[offset::997], "word 0"]:
        expected = [place for place, one in enumerate(strings.to_pylist()) if one == text]
        assert lookup.places(text.encode()).tolist() == expected
