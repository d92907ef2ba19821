"""Many spoiled files, made and read: every one by its number, so that each can be made again."""

from __future__ import annotations

import contextlib
import encodings
import gc
import importlib
import json
import os
import pkgutil
import random
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import colonnade
from colonnade import kernels
from tools.fuzz.answers import Answers
from tools.fuzz.blame import blame, build_watch, watch_deaths
from tools.fuzz.children import BEFORE, MEMORY, Kind, Outcome, run
from tools.fuzz.readers import read_plainly
from tools.fuzz.seed import FAMILIES, Seed, family_of
from tools.fuzz.spoil_bytes import spoil_bytes
from tools.fuzz.turns import ALL, Turn, turn_of, without_library
from tools.fuzz.usage import INDEXED

BATCH = 250  # files between two new children
MOST_KEPT = 3  # files kept of one kind of trouble
PLAIN = Kind()
"""Children that read without libhdf5: nothing in them has loaded h5py, so that every crash is ours."""
STRUCTURE, BOTH = 0.25, 0.05  # of all files: spoiled in structure; of these, in bytes afterwards
_MEMORY_WITH_LIBRARY = 1 << 30  # bytes above what a child with libhdf5 begins with
_ALSO = ("difflib", "secrets", "zoneinfo", "pyarrow.compute", "unittest.mock")
_PACKAGES = ("colonnade", "tools", "numpy", "h5py", "pyarrow", "pandas", "rich", "click", "importlib", "concurrent",
             "encodings", "scipy")  # fmt: skip
_WARM = (
    "indexed", "text-shuffle+deflate", "filter-blosc2", "foreign", "elements-all", "sparse-sectioned", "frame",
    "layouts-compound", "layouts-vaex", "layouts-netcdf", "layouts-hdmf", "layouts-pytables", "layouts-h5col-lists",
    "layouts-h5col-indexes", "layouts-index-file",
)  # fmt: skip
"""Good files whose reading imports what reading needs."""
_of_library: list[str] = []
"""The modules that children with libhdf5 import first."""
_CODE = subprocess.run(
    ["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False, cwd=Path(__file__).parent
).stdout.strip()
OUTSIDE = b"not to be read, nor to be written" * 4
IN_ORDER = "in order"
REFUSED = "refused"
DIFFERENT = "different, and no checksum covers it"
_WAYS = ("disagree: paths", "disagree: auto")
_OF_ROWS = (" read", " by library", " take", " element", " cells", " array", " values")
"""How the steps end that answer with rows."""
WAYS_DIFFER = "different by the library and past it: its structure is damaged, and no checksum covers it"


@dataclass
class Tally:
    """What became of all files: counts by outcome, and each kind of trouble with the files that show it.

    Files are counted by their kind of spoiling and by the commit that read them, changes by their way.
    """

    n_begun: int = 0
    n_files: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    ways: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    troubles: Counter[str] = field(default_factory=Counter)
    files: dict[str, list[str]] = field(default_factory=dict)
    slowest: float = 0.0
    most_memory: int = 0
    largest: int = 0
    seconds: float = 0.0
    by_code: Counter[str] = field(default_factory=Counter)


class Campaign:
    """A run: seeds, a folder to work in, a folder for what is found."""

    def __init__(self, folder: Path, found: Path, number: int, plainly: bool = False) -> None:
        self.folder, self.found, self.number, self.plainly = folder, found.resolve(), number, plainly
        self.tally = Tally()
        self.seeds: list[Seed] = []
        self.right: dict[str, dict[str, str]] = {}
        self._families: dict[str, list[Seed]] = {}

    def prepare(self) -> None:
        """Make the seeds, in a child: no thread may have begun in this process."""
        self._set_up()
        seeds = self.folder / "seeds"
        [made] = run([0], lambda _piece: _make_seeds(seeds), self.folder, Kind(120, _MEMORY_WITH_LIBRARY, trusted=True))
        if made.trouble is not None:
            raise RuntimeError(f"the seeds could not be made: {made.trouble}\n{made.trace}")
        paths = [Path(path) for path in made.result]
        loaded = list(run(range(len(paths)), lambda piece: _loaded(paths[piece]), self.folder, with_library()))
        self.seeds = [Seed(paths[o.piece].stem, paths[o.piece].read_bytes(), *_ranges(o.result)) for o in loaded]
        for seed in self.seeds:
            self._families.setdefault(family_of(seed.name), []).append(seed)

    def read_seeds(self, names: Iterable[str]) -> None:
        """Note the answers of these seeds, where they are not known yet. All of them take half a minute."""
        paths = [self.folder / "seeds" / f"{name}.h5" for name in names if name not in self.right]
        turn = without_library(ALL) if self.plainly else ALL
        for outcome in self._read_all(dict(enumerate(paths)), dict.fromkeys(range(len(paths)), turn), seconds=60):
            if outcome.trouble is not None or outcome.result["bugs"]:
                why = outcome.result["bugs"] if outcome.trouble is None else (outcome.trouble, outcome.trace)
                raise RuntimeError(f"{paths[outcome.piece].name}: a good file is not read well: {why}")
            self.right[paths[outcome.piece].stem] = outcome.result["steps"]

    def read_alone(self, paths: list[Path]) -> list[Outcome]:
        """Files that were made before."""
        paths = [path.resolve() for path in paths]
        self._set_up()
        places = [Path(shutil.copyfile(path, self.folder / "work" / path.name)) for path in paths]
        return list(self._read_all(dict(enumerate(places)), dict.fromkeys(range(len(places)), ALL)))

    def _set_up(self) -> None:
        import_everything(self.folder / "warm")
        os.environ |= {"COLONNADE_CACHE": str(self.folder / "cache"), "COLONNADE_THREADS": "1"}
        # Children are nobody, and no name of a file may lead out of here.
        self._make_places()
        build_watch(self.folder)
        BEFORE[:] = [watch_deaths]
        (self.folder / "outside.raw").write_bytes(OUTSIDE)

    def _make_places(self) -> None:
        for place in (self.folder, *(self.folder / name for name in ("work", "work/aside", "cache", "seeds"))):
            place.mkdir(parents=True, exist_ok=True)
            place.chmod(0o777)
        os.chdir(self.folder / "work")

    def run(self, numbers: Iterator[int], n_batch: int = BATCH) -> Iterator[Tally]:
        """Make and read these files; the tally after each batch."""
        while batch := [number for _, number in zip(range(n_batch), numbers, strict=False)]:
            begun = time.monotonic()
            changed = dict(self._make(batch))
            self.read_seeds(dict.fromkeys(self._seed(number).name for number in changed))
            turns = {number: self._turn(number, changed[number]) for number in changed}
            for outcome in self._read_all({number: self._place(number) for number in changed}, turns):
                self._count(outcome, changed[outcome.piece])
            if (self.folder / "outside.raw").read_bytes() != OUTSIDE:
                raise RuntimeError("a file outside was written")
            for name in ("work", "cache"):
                shutil.rmtree(self.folder / name)
            self._make_places()
            self.tally.n_begun += len(batch)
            self.tally.by_code[_CODE] += len(batch)
            self.tally.seconds += time.monotonic() - begun
            yield self.tally

    def _turn(self, number: int, changed: list[tuple[int, int]] | None) -> Turn:
        seed = self._seed(number)
        turn = turn_of(number, self._within(changed, seed.rows), family_of(seed.name))
        return without_library(turn) if self.plainly else turn

    def _place(self, number: int) -> Path:
        return self.folder / "work" / f"{number}.h5"

    def _seed(self, number: int) -> Seed:
        """Each family has its share, however many files it has."""
        chance = random.Random(f"{self.number} seed {number}")
        [family] = chance.choices(list(self._families), [FAMILIES[name] for name in self._families])
        return chance.choice(self._families[family])

    def _make(self, batch: list[int]) -> Iterator[tuple[int, Any]]:
        """Each file and which bytes of its seed were changed. Where h5py itself dies of a change, there is none."""
        for outcome in run(batch, self._spoil, self.folder, with_library()):
            if outcome.trouble is None and self._place(outcome.piece).exists():
                self.tally.kinds[outcome.result["kind"]] += 1
                self.tally.ways.update(outcome.result["ways"])
                yield outcome.piece, outcome.result["changed"]
            else:
                self.tally.outcomes["not made: h5py died of the change"] += 1

    def _spoil(self, number: int) -> dict[str, Any]:
        from tools.fuzz.spoil_structure import spoil_structure  # late: it loads h5py

        seed, place = self._seed(number), self._place(number)
        chance = random.Random(f"{self.number} spoil {number}")
        how = chance.random()
        data, changed, ways = bytearray(seed.data), None, []
        structure, both = how < STRUCTURE, STRUCTURE - BOTH <= how < STRUCTURE
        if structure:
            place.write_bytes(seed.data)
            ways += spoil_structure(place, chance)
            data = bytearray(place.read_bytes())
        if both or not structure:
            changed, more = spoil_bytes(seed, data, chance)
            ways += more
        place.write_bytes(data)
        kind = "structure, then bytes" if both else "structure" if structure else "bytes"
        return {"changed": None if structure else changed, "kind": kind, "ways": ways}

    def _read_all(
        self, paths: dict[int, Path], turns: dict[int, Turn], seconds: float = PLAIN.seconds
    ) -> Iterator[Outcome]:
        """Every file without libhdf5; then, in other children, those whose turn it is with it. One outcome of each."""
        plain = {
            o.piece: o for o in run(list(paths), lambda n: _plainly(paths[n], turns[n]), self.folder, Kind(seconds))
        }
        again = [n for n, outcome in plain.items() if outcome.trouble is None and turns[n].needs_library]
        aside = self.folder / "work" / "aside"

        def read(number: int) -> dict[str, Any]:
            return _with_library(paths[number], aside, turns[number], plain[number].result)

        for outcome in run(again, read, self.folder, with_library(seconds)):
            yield outcome if outcome.trouble is not None else _both(plain[outcome.piece], outcome)
        yield from (outcome for n, outcome in plain.items() if n not in again)

    @staticmethod
    def _within(changed: list[tuple[int, int]] | None, ranges: tuple[tuple[int, int], ...]) -> bool:
        """Whether bytes were changed, and only in these ranges."""
        return changed is not None and all(
            any(low <= first and end <= high for low, high in ranges) for first, end in changed
        )

    def make_again(self, number: int) -> Path:
        [outcome] = run([number], self._spoil, self.folder, with_library())
        self.found.mkdir(parents=True, exist_ok=True)
        place = self.found / f"{self.number}-{number}-{self._seed(number).name}.h5"
        if outcome.trouble is None:
            shutil.copyfile(self._place(number), place)
        return place

    # -- what became of a file --

    def _count(self, outcome: Outcome, changed: list[tuple[int, int]] | None) -> None:
        tally = self.tally
        tally.n_files += 1
        if outcome.trouble is not None:
            what = blame(outcome)
            tally.outcomes[what.split(":")[0]] += 1
            self._keep(what, outcome)
            return
        tally.slowest = max(tally.slowest, outcome.result["seconds"])
        tally.most_memory = max(tally.most_memory, outcome.result["grown"])
        tally.largest = max(tally.largest, outcome.result["peak"])
        seed = self._seed(outcome.piece)
        bugs, differing = list(outcome.result["bugs"]), False
        if not self._within(changed, seed.rows):
            # A B-tree that is damaged leads the library's own calls to different chunks, and nothing can tell.
            differing = any(bug.startswith(_WAYS) for bug in bugs)
            bugs = [bug for bug in bugs if not bug.startswith(_WAYS)]
        if outcome.result["grown"] and outcome.result["above"] > MEMORY:
            bugs.append("memory: the process took more than it may")
        verdict, steps = _compared(self.right[seed.name], outcome.result["steps"])
        if verdict == DIFFERENT and self._within(changed, seed.covered) and not self._is_misled(seed, outcome.piece):
            bugs.append(f"wrong under a checksum: {seed.name}: {steps[0]}")
        for bug in bugs:
            self._keep(f"ours: {bug}", outcome)
        tally.outcomes["ours" if bugs else WAYS_DIFFER if differing else verdict] += 1

    def _is_misled(self, seed: Seed, number: int) -> bool:
        """Whether fletcher32 itself finds nothing wrong: to it 0x0000 and 0xffff are the same."""
        data = self._place(number).read_bytes()
        spoiled = [(a, b) for a, b in seed.summed if data[a:b] != seed.data[a:b]]
        return any(
            kernels.fletcher32(memoryview(data)[a : b - 4]).to_bytes(4, "little") == data[b - 4 : b] for a, b in spoiled
        )

    def _keep(self, what: str, outcome: Outcome) -> None:
        self.tally.troubles[what] += 1
        files = self.tally.files.setdefault(what, [])
        name = f"{self.number}-{outcome.piece}-{self._seed(outcome.piece).name}.h5"
        if len(files) < MOST_KEPT and name not in files:
            self.found.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(self._place(outcome.piece), self.found / name)
            files.append(name)
            with (self.found / "troubles.jsonl").open("a") as log:
                log.write(json.dumps({"what": what, "file": name, "trace": outcome.trace[-4000:]}) + "\n")


def import_everything(folder: Path) -> None:
    """Import, here and once, what children will need: each would spend a second on it, and nobody may not read it all.

    Good files are written and read by children, which say what they have imported; this process must not begin threads,
    nor load h5py.
    """
    folder.mkdir(parents=True, exist_ok=True)
    os.environ[INDEXED] = str(folder / "indexed.h5")
    trusted = Kind(120, _MEMORY_WITH_LIBRARY, trusted=True)
    for what in (_make_warm, _plain_modules, _library_modules):
        [told] = run([0], lambda _piece, what=what: what(folder), folder, trusted)  # type: ignore[misc]
        if told.trouble is not None:
            raise RuntimeError(f"good files could not be made and read: {told.trouble}\n{told.trace}")
        if what is _plain_modules:
            spoken = [f"encodings.{module.name}" for module in pkgutil.iter_modules(encodings.__path__)]
            _import([*told.result, *_ALSO, *spoken])
    _of_library[:] = told.result
    if "h5py" in sys.modules:
        raise RuntimeError("h5py was loaded where crashes are to be ours")


def _import(names: Iterable[str]) -> None:
    for name in names:
        with contextlib.suppress(ImportError, LookupError):  # some encodings are of other systems
            importlib.import_module(name)
    gc.collect()
    gc.freeze()  # children need not look through all this again and again


def import_library() -> None:
    """Import what reads and changes files through libhdf5, and all other modules of colonnade."""
    _import(["tools.fuzz.library_readers", "hdf5plugin", *_of_library])


def with_library(seconds: float = PLAIN.seconds) -> Kind:
    """Children that have loaded h5py."""
    return Kind(seconds, _MEMORY_WITH_LIBRARY, prepare=import_library)


def _make_warm(folder: Path) -> None:
    from tools.fuzz.layout_seeds import make_indexed  # late: they load h5py
    from tools.fuzz.seeds import MAKERS

    make_indexed(Path(os.environ[INDEXED]))
    for name in _WARM:
        MAKERS[name](folder / f"warm-{name}.h5")


def _plain_modules(folder: Path) -> list[str]:
    for path in sorted(folder.glob("warm-*.h5")):
        read_plainly(path)
    if "h5py" in sys.modules:
        raise RuntimeError("h5py was loaded by a reader that was told never to use it")
    return _imported()


def _library_modules(folder: Path) -> list[str]:
    from tools.fuzz.library_readers import read_with_library  # late: it loads h5py

    for module in pkgutil.walk_packages(colonnade.__path__, "colonnade."):
        if not module.name.endswith(("__main__", "_native")):
            importlib.import_module(module.name)
    importlib.import_module("tools.fuzz.seeds")
    importlib.import_module("tools.fuzz.spoil_structure")
    for path in sorted(folder.glob("warm-*.h5")):
        read_with_library(path, folder / f"aside-{path.name}", read_plainly(path))
    return _imported()


def _imported() -> list[str]:
    return [name for name in sys.modules if "." not in name or name.split(".")[0] in _PACKAGES]


def _make_seeds(folder: Path) -> list[str]:
    from tools.fuzz.seeds import make_seeds  # late: it loads h5py

    return [str(path) for path in make_seeds(folder)]


def _plainly(path: Path, turn: Turn) -> dict[str, Any]:
    return vars(read_plainly(path, turn))


def _with_library(path: Path, aside: Path, turn: Turn, plain: dict[str, Any]) -> dict[str, Any]:
    from tools.fuzz.library_readers import read_with_library  # imported already, by `import_library`

    answers = Answers(dict(plain["steps"]), list(plain["bugs"]), [tuple(column) for column in plain["columns"]])
    read_with_library(path, aside / path.name, answers, turn)
    if turn.change:
        for left in aside.iterdir():
            left.unlink(missing_ok=True)
    return {"steps": answers.steps, "bugs": answers.bugs}


def _both(plain: Outcome, more: Outcome) -> Outcome:
    """The answers of both, the time and the memory of reading without libhdf5."""
    return replace(more, result=plain.result | {key: more.result[key] for key in ("steps", "bugs")})


def _loaded(path: Path) -> list[list[tuple[int, int]]]:
    from tools.fuzz.seeds import load  # late: it loads h5py

    seed = load(path)
    return [list(seed.structure), list(seed.rows), list(seed.covered), list(seed.summed)]


def _ranges(found: Any) -> list[Any]:
    return [tuple((a, b) for a, b in part) for part in found]


def _compared(right: dict[str, str], steps: dict[str, str]) -> tuple[str, list[str]]:
    """Whether the answers are those of the good file, and which are not although nothing was refused."""
    wrong = [step for step, answer in steps.items() if answer != right.get(step) and not answer.startswith("refused")]
    # Of a group read as another table, a column that is damaged makes place for one that was not read before.
    wrong = [step for step in wrong if not step.endswith(" values") or step in right]
    # Questions that depend on the rows read before, and digests of headers, say nothing of the rows.
    wrong = [step for step in wrong if step.endswith(_OF_ROWS)]
    if wrong:
        return DIFFERENT, wrong
    return (IN_ORDER if all(answer == right.get(step) for step, answer in steps.items()) else REFUSED), []
