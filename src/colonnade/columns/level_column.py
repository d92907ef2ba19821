"""Columns that store each category as a string: read as a dictionary, compared by category codes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from colonnade.columns import compute as pc
from colonnade.columns.decode import corrupt_row, decode, decode_strings
from colonnade.columns.kept import CodedReader, any_of
from colonnade.columns.keys import Numbers
from colonnade.columns.missing import Mask
from colonnade.columns.read import Present, Raw
from colonnade.errors import FormatError
from colonnade.h5.heap import Strings

_MOST_SHOWN = 60


class LevelsReader(CodedReader):
    """Strings that must each be one of the categories, or the fill."""

    def _stand_for(self, raw: Raw) -> tuple[Numbers, Mask | None]:
        text = self._text(raw)
        found = pc.index_in(text, value_set=self.categories())
        unknown = found.is_null().to_numpy(zero_copy_only=False)
        missing = text.is_null().to_numpy(zero_copy_only=False)
        strange = unknown & ~missing
        if strange.any():
            row = int(np.argmax(strange))
            raise corrupt_row("text", row, "one of the categories", text[row].as_py()[:_MOST_SHOWN])
        return found.fill_null(0).to_numpy().astype(np.int32, copy=False), any_of(missing)

    def _text(self, raw: Raw) -> pa.Array:
        stored, fill = self.column.type, self._fill_text()
        if stored.kind not in ("string", "text"):
            name = self.column.name
            raise FormatError(f"column {name!r} holds {stored}, which is not a string type", column=name)
        if isinstance(raw, Strings):
            return decode_strings(raw, pa.string(), fill)
        assert not isinstance(raw, Present)  # strings are not numbers
        return decode(raw, stored, pa.string(), fill)

    def _fill_text(self) -> bytes | None:
        """The fill up to NUL, padded to the element size; None if there is no fill or no element can hold it."""
        if self.column.fill is None:
            return None
        text, stored = self.column.fill.split(b"\0")[0], self.column.type
        if stored.kind == "text":
            return text
        return text.ljust(stored.size, b"\0") if len(text) <= stored.size else None
