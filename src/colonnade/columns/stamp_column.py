"""Dates and times stored as strings: read as Arrow dates and timestamps, compared as integers."""

from __future__ import annotations

import ctypes

import numpy as np
import pyarrow as pa

from colonnade.columns.decode import corrupt_row
from colonnade.columns.kept import StandingReader, any_of
from colonnade.columns.keys import Numbers
from colonnade.columns.missing import Mask
from colonnade.columns.read import Present, Raw
from colonnade.columns.stamps import Stamps, Texts, equal_texts, parse_date_times, parse_dates, texts_of
from colonnade.errors import FormatError
from colonnade.h5.heap import Strings
from colonnade.stored_dtypes import memory_dtype

_MOST_SHOWN = 60


class StampReader(StandingReader):
    """Dates as YYYY-MM-DD or RFC 3339 times, depending on `kind`."""

    def _stand_for(self, raw: Raw) -> tuple[Numbers, Mask | None]:
        texts, fill = self._texts(raw), self.column.fill
        missing = None if fill is None else any_of(equal_texts(texts, fill))
        found = parse_dates(texts) if self.column.kept == "date" else parse_date_times(texts, self.kind.unit)
        self._check(texts, found, missing)
        return found.numbers.astype(memory_dtype(self.key_type)), missing

    def _texts(self, raw: Raw) -> Texts:
        if isinstance(raw, Strings):
            return Texts(raw.data, raw.offsets[:-1].astype(np.int64), np.diff(raw.offsets).astype(np.int64))
        assert not isinstance(raw, Present)  # strings are not numbers
        if self.column.type.kind == "text":
            found = [ctypes.string_at(pointer) if pointer else b"" for pointer in raw.tolist()]
            return texts_of(pa.array(found, pa.binary()))
        if raw.dtype.kind != "S":
            name, stored = self.column.name, self.column.type
            raise FormatError(f"column {name!r} holds {stored}, which is not a string type", column=name)
        return texts_of(raw)

    def _check(self, texts: Texts, found: Stamps, missing: Mask | None) -> None:
        """Raise for a row that is not a valid date or time; missing rows are not checked."""
        is_date = self.column.kept == "date"
        for wrong, expected in (
            (found.malformed, "a date as YYYY-MM-DD" if is_date else "a time as YYYY-MM-DDThh:mm:ss and Z or +hh:mm"),
            (found.no_such_day, "a day that exists"),
            (found.too_far, f"a time that {self.kind} can hold"),
        ):
            if missing is not None:
                wrong = wrong & ~missing
            if wrong.any():
                row = int(np.argmax(wrong))
                start, length = int(texts.starts[row]), min(int(texts.lengths[row]), _MOST_SHOWN)
                shown = texts.data[start : start + length].tobytes()
                raise corrupt_row("date" if is_date else "time", row, expected, shown.decode("utf-8", "replace"))
