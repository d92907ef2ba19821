"""Dates and times as text: what ArtifactDB's validator takes for one, and which of these days there are."""

from __future__ import annotations

import re
from datetime import date

_DATE = rb"([0-9]{4})-(0[0-9]|1[0-2])-([0-2][0-9]|3[01])"
_CLOCK = rb"([01][0-9]|2[0-4]):([0-5][0-9])"
_IS_DATE = re.compile(_DATE + rb"\Z")
_IS_TIME = re.compile(_DATE + rb"T" + _CLOCK + rb":([0-5][0-9]|60)(\.[0-9]+)?(Z|[+-]" + _CLOCK + rb")\Z")


def stamp_problem(text: bytes, form: str) -> str | None:
    """Why a text is no "date" or "date-time"; None when it is one, of a day that there is or not."""
    if form == "date":
        return None if _IS_DATE.match(text) else "is not YYYY-MM-DD"
    found = _IS_TIME.match(text)
    if found is None:
        return "is no date, T, time and zone as RFC 3339 has them"
    hour, minute, second, fraction = found.group(4, 5, 6, 7)
    is_whole = not (fraction or b"").strip(b".0")
    if hour == b"24" and not (minute == second == b"00" and is_whole):
        return "is later than 24:00:00"
    if second == b"60" and not is_whole:
        return "is later than second 60"
    return None


def is_day(text: bytes) -> bool:
    """Whether the calendar has the day that a text begins with. RFC 3339 has a year 0000, which is a leap year."""
    year, month, day = int(text[:4]), int(text[5:7]), int(text[8:10])
    try:
        date(year or 2000, month, day)
    except ValueError:
        return False
    return True
