"""No file that is not ours is followed, truncated, overwritten or removed, whatever lies at the names we use."""

from __future__ import annotations

import ast
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from threading import Timer

import pyarrow as pa
import pytest
from tools import architecture

import colonnade as cn
from colonnade.errors import ConflictError
from colonnade.pager.safe_files import open_new

PRECIOUS = b"the only copy of a thesis\n" * 40
SIDECARS = ("-lock", "-journal", "-readers")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "run.h5"
    cn.write(path, {"x": [1, 2, 3]}, "t")
    return path


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    victim = folder / "thesis.tex"
    victim.write_bytes(PRECIOUS)
    return victim


def append(path: Path) -> None:
    with cn.open(path, "r+", timeout=0.1) as file:
        file["t"].append({"x": [4]})


def replace(path: Path) -> None:
    with cn.open(path, "w", timeout=0.1) as file:
        file.create("t", {"x": [4]})


def read(path: Path) -> None:
    cn.read(path, "t")


ACTS: list[Callable[[Path], None]] = [append, replace, read]


def plant_symlink(place: Path, victim: Path) -> None:
    place.symlink_to(victim)


def plant_hard_link(place: Path, victim: Path) -> None:
    os.link(victim, place)


def plant_file(place: Path, victim: Path) -> None:
    place.write_bytes(victim.read_bytes())


PLANTS = [plant_symlink, plant_hard_link, plant_file]


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("plant", PLANTS)
@pytest.mark.parametrize("ending", SIDECARS)
def test_what_lies_at_our_names_is_left_alone(
    path: Path, victim: Path, ending: str, plant: Callable[[Path, Path], None], act: Callable[[Path], None]
) -> None:
    place = path.with_name(path.name + ending)
    plant(place, victim)
    try:
        act(path)
    except ConflictError as error:
        assert place.name in str(error)  # which file is in the way
    assert victim.read_bytes() == PRECIOUS
    assert place.read_bytes() == PRECIOUS
    assert place.is_symlink() == (plant is plant_symlink)
    place.unlink()
    assert cn.read(path, "t")["x"].to_pylist() in ([1, 2, 3], [1, 2, 3, 4], [4])


def test_a_new_file_is_never_one_that_is_there(victim: Path) -> None:
    with pytest.raises(FileExistsError):
        open_new(victim)
    assert victim.read_bytes() == PRECIOUS


@pytest.mark.parametrize("ending", SIDECARS)
def test_a_link_to_nowhere_makes_no_file(path: Path, ending: str, tmp_path: Path) -> None:
    target = tmp_path / "not-there"
    path.with_name(path.name + ending).symlink_to(target)
    for act in ACTS:
        with suppress(ConflictError):
            act(path)
        assert not target.exists()


def test_a_lock_of_others_stops_no_reader(path: Path, victim: Path) -> None:
    path.with_name(path.name + "-lock").symlink_to(victim)
    assert cn.read(path, "t")["x"].to_pylist() == [1, 2, 3]


@pytest.mark.parametrize("ending", SIDECARS)
def test_a_pipe_at_our_names_blocks_nobody(path: Path, ending: str) -> None:
    pipe = path.with_name(path.name + ending)
    os.mkfifo(pipe)
    released: list[int] = []
    timer = Timer(10, lambda: released.append(os.open(pipe, os.O_RDWR | os.O_NONBLOCK)))  # ends all waiting
    timer.start()
    for act in ACTS:
        try:
            act(path)
        except ConflictError as error:
            assert ending in str(error)
    timer.cancel()
    timer.join()
    for descriptor in released:
        os.close(descriptor)
    assert not released, "it waited until the pipe had a writer"


def test_part_files_of_documents_are_not_guessed(tmp_path: Path, victim: Path) -> None:
    """Links planted under every name that could be guessed from the process number."""
    folder = tmp_path / "frame"
    folder.mkdir()
    guesses = [folder / f".{name}.{os.getpid()}.part" for name in ("OBJECT", "basic_columns.h5", "run.h5.json")]
    for guess in guesses:
        guess.symlink_to(victim)
    cn.write(folder, {"x": [1, 2]}, layout="artifactdb", directory=True)
    assert victim.read_bytes() == PRECIOUS


def test_a_table_written_out_does_not_follow_a_guessed_link(path: Path, victim: Path, tmp_path: Path) -> None:
    from click.testing import CliRunner

    from colonnade.cli.commands import main

    (tmp_path / f".colonnade-{os.getpid()}.part").symlink_to(victim)
    target = tmp_path / "out.parquet"
    result = CliRunner().invoke(main, ["where", str(path), "t", "x > 1", "-o", str(target)])
    assert result.exit_code == 0, result.output
    assert victim.read_bytes() == PRECIOUS
    assert pa.parquet.read_table(target)["x"].to_pylist() == [2, 3]


def test_receipts_do_not_follow_a_link(
    path: Path, victim: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from colonnade.pager.receipts import _receipt_path

    monkeypatch.setenv("COLONNADE_CACHE", str(tmp_path / "cache"))
    place = _receipt_path(path.resolve())
    place.parent.mkdir(parents=True)
    place.symlink_to(victim)
    with cn.open(path, "r+") as file:
        file["t"].build_index("x", "chunk_minmax")
    assert victim.read_bytes() == PRECIOUS


# -- a lint: files are opened for writing in one module only --

ALLOWED = {"safe_files.py", "order.py", "external.py"}  # the latter two in a scratch folder that nobody else may write


def opened_for_writing(path: Path) -> Iterator[str]:
    """Calls that may open a file for writing past `safe_files`, as "file:line: call"."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    imported = {
        alias.asname or alias.name for node in nodes if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    ours = imported | {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
    for node in nodes:
        if isinstance(node, ast.Call) and _is_writing(node, ours):
            yield f"{path.name}:{node.lineno}: {ast.unparse(node)}"


def _is_writing(call: ast.Call, ours: set[str]) -> bool:
    name = ast.unparse(call.func)
    if name in ("os.open", "tempfile.NamedTemporaryFile") or name.endswith((".write_bytes", ".touch", ".mkstemp")):
        return True
    if name.endswith(".write_text"):
        return len(call.args) == 1  # that of attributes takes more
    is_open = (name == "open" and name not in ours) or (name.endswith((".open", "OSFile")) and name != "self.open")
    given = [*call.args, *(word.value for word in call.keywords)]
    modes = [node.value for node in given if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return is_open and any(set(mode) & set("wax+") and set(mode) <= set("rwaxbt+") for mode in modes)


def test_files_are_opened_for_writing_in_one_module_only() -> None:
    sources = [path for path in architecture.source_files() if path.name not in ALLOWED]
    assert [line for path in sources for line in opened_for_writing(path)] == []


WRITING = [
    "open(p, 'wb')",
    "p.open('w')",
    "gzip.open(p, 'wb')",
    "os.open(p, 0)",
    "p.write_bytes(b'')",
    "open(p, mode='a')",
]


@pytest.mark.parametrize("line", WRITING)
def test_the_lint_sees(tmp_path: Path, line: str) -> None:
    (tmp_path / "module.py").write_text(line)
    assert list(opened_for_writing(tmp_path / "module.py"))
