"""Byte sources: the same bytes by every way to read a file, and a CorruptError where there are fewer."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from colonnade.errors import CorruptError
from colonnade.pager.disk import Disk
from colonnade.pager.held_pages import PAGE
from colonnade.pager.journal import JournaledFile
from colonnade.pager.sources import BufferBytes, ByteSource, JournaledBytes, LocalBytes, StreamBytes

DATA = bytes(range(256)) * 64
KINDS = ("local", "buffer", "stream", "journaled")


@contextmanager
def opened(kind: str, path: Path) -> Iterator[ByteSource]:
    path.write_bytes(DATA)
    if kind == "buffer":
        yield BufferBytes(DATA, path.name)
    elif kind == "stream":
        yield StreamBytes(io.BytesIO(DATA), path.name)
    elif kind == "journaled":
        file = JournaledFile(path, Disk())
        yield JournaledBytes(file, path.name)
        file.close()
    else:
        with path.open("rb") as stream:
            yield LocalBytes(stream.fileno(), path.name)


@pytest.mark.parametrize("kind", KINDS)
def test_every_source_reads_the_same_bytes(kind: str, tmp_path: Path) -> None:
    with opened(kind, tmp_path / "f") as source:
        assert (source.name, source.size) == ("f", len(DATA))
        assert source.read(5000, 700, "a part") == DATA[5000:5700]
        assert source.read(len(DATA), 0, "nothing") == b""
        assert source.read_many([(9000, 3), (0, 2), (9000, 3)], "parts") == [DATA[9000:9003], DATA[:2], DATA[9000:9003]]
        assert source.read_at(len(DATA) - 4, 100) == DATA[-4:]
        target = bytearray(10)
        assert source.read_into(len(DATA) - 4, memoryview(target)) == 4
        assert target == DATA[-4:] + bytes(6)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("place", [(len(DATA) - 4, 5), (len(DATA) + 1, 0), (-1, 1), (0, 1 << 60), (8, -1)])
def test_a_range_outside_the_file_is_damage(kind: str, place: tuple[int, int], tmp_path: Path) -> None:
    with opened(kind, tmp_path / "f") as source:
        for read in (lambda: source.read(*place, "a part"), lambda: source.read_many([(0, 1), place], "a part")):
            with pytest.raises(
                CorruptError, match=f"f: a part has {place[1]} bytes at byte {place[0]}, but the file has"
            ):
                read()


def test_a_file_that_became_shorter_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "f"
    with opened("local", path) as source:
        os.truncate(path, 100)
        assert source.read_at(90, 20) == DATA[90:100]
        with pytest.raises(CorruptError, match="a part is cut short by the end of the file"):
            source.read(90, 20, "a part")


def test_reads_that_return_less_than_asked_are_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, calls = os.pread, []
    monkeypatch.setattr(os, "pread", lambda file, n, at: (calls.append(n), real(file, min(n, 1000), at))[1])
    with opened("local", tmp_path / "f") as source:
        assert source.read(10, 5000, "a part") == DATA[10:5010]
    assert calls == [5000, 4000, 3000, 2000, 1000]


def test_a_journaled_file_shows_what_is_not_committed(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(DATA)
    file = JournaledFile(path, Disk())
    source = JournaledBytes(file, "f")
    file.write_at(PAGE - 2, memoryview(b"new!"))
    assert source.read(PAGE - 3, 6, "a part") == DATA[PAGE - 3 : PAGE - 2] + b"new!" + DATA[PAGE + 2 : PAGE + 3]
    file.append([b"appended"])
    assert source.read_at(len(DATA), 8) == b"appended"
    with pytest.raises(CorruptError):  # it is as long as it was: a wrong address must not find what was appended
        source.read(len(DATA), 8, "a part")
    assert JournaledBytes(file, "f").read(len(DATA), 8, "a part") == b"appended"
    file.close()
    assert path.read_bytes() == DATA
