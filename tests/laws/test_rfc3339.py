"""Dates and times as text: held to Python's datetime, and to a second reading of the grammar, one text at a time."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from colonnade.columns.plain import (
    PER_SECOND,
    date_problems,
    date_time_problems,
    date_times_to_text,
    dates_to_text,
    equal_texts,
    parse_date_times,
    parse_dates,
    texts_of,
)
from colonnade.errors import DataError

UNITS = tuple(PER_SECOND)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DATE = r"(?P<y>\d{4})-(?P<m>\d\d)-(?P<d>\d\d)"
_TIME = r"T(?P<H>\d\d):(?P<M>\d\d):(?P<S>\d\d)(?:\.(?P<f>\d+))?(?:Z|(?P<s>[+-])(?P<oh>\d\d):(?P<om>\d\d))"
GOOD = ("2024-02-29", "2023-01-31T10:20:30Z", "1999-12-31T23:59:60-00:00", "0000-01-01T24:00:00.000+24:00",
        "9999-12-31T00:00:00.123456789012+05:30")  # fmt: skip

NEAR = ("23:59:60.5Z", "23:59:60.0Z", "23:59:60.00000000001Z", "23:59:61Z", "23:60:00Z", "24:00:00Z", "24:00:01Z",
        "24:01:00Z", "24:00:00.0Z", "24:00:00.5Z", "24:00:00.00000000001Z", "25:00:00Z", "00:00:00+24:00",
        "00:00:00-24:01", "00:00:00+24:59", "00:00:00+25:00", "00:00:00+05:60", "00:00:00+0530", "00:00:00.Z",
        "00:00:00.1234567890123456789aZ", "00:00:00.12345a+01:00", "00:00:00 Z", "00:00:00", "00:00:00Z ",
        "00:00:00z", "00-00:00Z", "00:00-00Z",
        "00:00:00,5Z", "00:00:00*01:00", "00:00:00+01-00", "0a:00:00Z", "00:00:00.5")  # fmt: skip


def read_one(text: str, is_date: bool) -> tuple[bool, bool, int]:
    """Whether a text is malformed, whether it names no day, and which billionth of a second (or day) it is."""
    match = re.fullmatch(_DATE if is_date else _DATE + _TIME, text, re.ASCII)
    if match is None or int(match["m"]) > 12 or int(match["d"]) > 31:
        return True, False, 0
    part = {name: int(value or 0) for name, value in match.groupdict().items() if name not in ("s", "f")}
    if not is_date:
        digits = match["f"] or ""
        whole = not digits.strip("0")
        odd_hour = part["H"] > 23 and not (part["H"] == 24 and part["M"] == part["S"] == 0 and whole)
        odd_second = part["S"] > 59 and not (part["S"] == 60 and whole)
        odd_zone = part["om"] > 59 or part["oh"] * 60 + part["om"] > 24 * 60
        if odd_hour or odd_second or odd_zone or part["M"] > 59:
            return True, False, 0
    try:  # the calendar repeats after 400 years, and Python's begins with the year 1
        day = (date(part["y"] + 400 if part["y"] < 1 else part["y"], part["m"], part["d"]) - date(1970, 1, 1)).days
    except ValueError:
        return False, True, 0
    day -= 146_097 if part["y"] < 1 else 0
    if is_date:
        return False, False, day
    seconds = day * 86_400 + part["H"] * 3600 + part["M"] * 60 + part["S"]
    east = (-1 if match["s"] == "-" else 1) * (part["oh"] * 3600 + part["om"] * 60)
    return False, False, (seconds - east) * 10**9 + int((match["f"] or "").ljust(9, "0")[:9])


@st.composite
def near_stamps(draw: st.DrawFn) -> str:
    """Texts that are dates or times, or nearly so."""
    pair = st.one_of(st.integers(0, 13), st.integers(0, 61)).map("{:02}".format)
    text = f"{draw(st.integers(0, 9999)):04}-{draw(pair)}-{draw(pair)}"
    if draw(st.booleans()):
        text += "T" + ":".join((draw(pair), draw(pair), draw(pair)))
        text += draw(st.sampled_from(["", "", ".", ".0", ".5", ".000000000000", ".1234567891", ".00000000001"]))
        text += draw(st.sampled_from(["Z", "", "z", "+24:00", "-24:01", "+05:30", "-00:00", "+0530", "+05:60", "ZZ"]))
    if draw(st.integers(0, 3)) == 0:
        place = draw(st.integers(0, len(text)))
        text = text[:place] + draw(st.sampled_from(["", " ", "0", "9", ":", "/", "é", "٣", "T"])) + text[place + 1 :]
    return text


def as_fixed(texts: list[str]) -> Any:
    """Without those that a text of one length cannot hold."""
    return np.array([text.encode() for text in texts] or [b""])


@given(st.lists(st.one_of(near_stamps(), st.sampled_from(GOOD), st.text(max_size=30)), min_size=1))
@example(list(GOOD))
@example([f"2023-06-15T{rest}" for rest in NEAR])
@example(["", "2023-02-30", "2023-00-01", "2023-01-00", "1900-02-29", "2000-02-29", "2100-02-29", "2023-13-01"])
def test_the_grammar(texts: list[str]) -> None:
    texts = [text for text in texts if "\0" not in text]
    for strings in (pa.array(texts, pa.string()), pa.array(["x", *texts], pa.string())[1:], as_fixed(texts)):
        texts = texts or ([""] if isinstance(strings, np.ndarray) else [])
        for is_date, problems in ((True, date_problems), (False, date_time_problems)):
            truth = [read_one(text, is_date) for text in texts]
            malformed, no_such_day = problems(strings)
            assert malformed.tolist() == [one[0] for one in truth]
            assert no_such_day.tolist() == [one[1] for one in truth]
            good = np.flatnonzero(~malformed & ~no_such_day)
            if is_date:
                assert parse_dates(texts_of(strings)).numbers[good].tolist() == [truth[row][2] for row in good]
                continue
            for unit in UNITS:
                found, step = parse_date_times(texts_of(strings), unit), 10**9 // PER_SECOND[unit]
                for row in good.tolist():
                    expected = truth[row][2] // step
                    fits = -(2**63) <= expected < 2**63
                    assert found.too_far[row] == (not fits)
                    assert not fits or found.numbers[row] == expected


ZONES = st.integers(-23 * 60, 23 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))


@given(st.lists(st.datetimes(datetime(2, 1, 1), datetime(9999, 12, 30), timezones=ZONES), min_size=1))
def test_times_that_python_writes(times: list[datetime]) -> None:
    texts = pa.array([time.isoformat() for time in times])
    found = parse_date_times(texts_of(texts), "us")
    assert not (found.malformed | found.no_such_day | found.too_far).any()
    assert found.numbers.tolist() == [(time - EPOCH) // timedelta(microseconds=1) for time in times]


@given(st.lists(st.dates(), min_size=1))
def test_dates_both_ways(days: list[date]) -> None:
    numbers = np.array([(day - date(1970, 1, 1)).days for day in days], dtype=np.int64)
    assert dates_to_text(numbers).tolist() == [day.isoformat().encode() for day in days]
    assert parse_dates(texts_of(dates_to_text(numbers))).numbers.tolist() == numbers.tolist()


@given(st.lists(st.integers(-62_167_219_200, 253_402_300_799), min_size=1), st.sampled_from(UNITS), st.data())
def test_times_both_ways(seconds: list[int], unit: str, data: st.DataObject) -> None:
    """Of the years 0000 to 9999, as far as the unit counts; no more digits than are needed."""
    per_second = PER_SECOND[unit]
    rests = st.one_of(
        st.integers(0, per_second - 1), st.just(0), st.integers(0, 999).map(lambda n: n * per_second // 1000)
    )
    numbers = [second * per_second + data.draw(rests) for second in seconds]
    numbers = [number for number in numbers if -(2**63) <= number < 2**63] or [0]
    texts = date_times_to_text(np.array(numbers, dtype=np.int64), unit)
    found = parse_date_times(texts_of(texts), unit)
    assert not (found.malformed | found.no_such_day | found.too_far).any()
    assert found.numbers.tolist() == numbers
    for text, number in zip(texts.tolist(), numbers, strict=True):
        match = re.fullmatch(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.(\d+))?Z", text)
        assert match is not None
        needed = f"{number % per_second * (10**9 // per_second):09}".rstrip("0")
        assert len(match[1] or b"") == -(-len(needed) // 3) * 3


def test_ends_of_what_is_counted() -> None:
    ends = np.array([-(2**63), 2**63 - 1])
    texts = date_times_to_text(ends, "ns")
    assert texts.tolist() == [b"1677-09-21T00:12:43.145224192Z", b"2262-04-11T23:47:16.854775807Z"]
    assert parse_date_times(texts_of(texts), "ns").numbers.tolist() == ends.tolist()
    assert dates_to_text(np.array([-719_528, 2_932_896])).tolist() == [b"0000-01-01", b"9999-12-31"]
    assert date_times_to_text(np.zeros(0, np.int64), "us").tolist() == []


@pytest.mark.parametrize("day", [-719_529, 2_932_897, -(2**62), 2**62])
def test_years_of_other_than_four_digits_are_refused(day: int) -> None:
    with pytest.raises(DataError) as caught:
        dates_to_text(np.array([0, day]))
    assert caught.value.row == 1
    if abs(day) < 2**40:
        with pytest.raises(DataError):
            date_times_to_text(np.array([day * 86_400]), "s")


@given(
    st.lists(st.sampled_from(["", "N", "NA", "NA\0", "NA\0B", "NAB", "\0", "\0NA", "xNA"])), st.sampled_from(["NA", ""])
)
def test_equal_up_to_nul(texts: list[str], wanted: str) -> None:
    truth = [text.split("\0")[0] == wanted for text in texts]
    for mark in (wanted.encode(), wanted.encode() + b"\0\0x"):
        assert equal_texts(texts_of(pa.array(texts, pa.string())), mark).tolist() == truth
        if texts:
            assert equal_texts(texts_of(as_fixed(texts)), mark).tolist() == truth
