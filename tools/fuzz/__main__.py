"""Spoiled files through every reader: `python -m tools.fuzz [--files N] [--seed K] [--jobs J] [--state F]`.

Ends with 1 if anything of ours crashed, hung, took too much memory, raised what is no error of ours, or answered
wrongly where a checksum or another way of reading could tell. What shows it is kept in --found.
`--state FOLDER` keeps the tally after every batch: the same call goes on behind the last one, whenever that ended.
`--one FILE` reads one file, here, and prints what was found; `--make N FOLDER` makes file N of the seed.
`--seeds` reads only the good files, each of which must be read without a fault.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import signal
import sys
import tempfile
import time
from pathlib import Path

from tools.fuzz.campaign import Campaign, import_everything, import_library
from tools.fuzz.children import drop_rights
from tools.fuzz.readers import read_plainly
from tools.fuzz.report import merged, save, shown


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--files", type=int, default=1000, help="how many spoiled files")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="end after so long, whatever --files says")
    parser.add_argument("--seed", type=int, default=0, help="another seed, other files")
    parser.add_argument("--jobs", type=int, default=1, help="processes side by side")
    parser.add_argument("--found", type=Path, default=Path("fuzz-found"), help="folder for what shows a fault")
    parser.add_argument("--state", type=Path, help="folder that keeps the tally, to go on from it another time")
    parser.add_argument("--plainly", action="store_true", help='only the readers without libhdf5 (library="never")')
    parser.add_argument("--make", type=int, help="only make this file, into --found")
    parser.add_argument("--seeds", action="store_true", help="only read the good files")
    parser.add_argument("--one", type=Path, help="read this file only, here")
    parser.add_argument("--limited", type=Path, nargs="+", help="read these files only, in children with limits")
    asked = parser.parse_args(arguments)
    if asked.one is not None:
        return _read_one(asked.one)
    if asked.limited is not None:
        return _read_limited(asked.limited)
    if asked.seeds or asked.make is not None:
        return _without_a_tally(asked)
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="colonnade-fuzz-", dir=_fast_folder()) as folder:
        Path(folder).chmod(0o755)  # children are nobody
        tally = merged(_jobs(asked, Path(folder), begun))
    print(shown(tally))
    return 1 if any(what.startswith("ours") for what in tally.troubles) else 0


def _fast_folder() -> str | None:
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


def _jobs(asked: argparse.Namespace, folder: Path, begun: float) -> list[Path]:
    """One process a job, each with every so manieth file; their tallies as files."""
    results, children = [], []
    for job in range(asked.jobs):
        place = folder / str(job)
        place.mkdir()
        results.append((asked.state or place) / f"seed-{asked.seed}-job-{job}-of-{asked.jobs}.json")
        child = os.fork()
        if child == 0:
            code = 1
            try:
                _job(asked, place, results[-1], job, begun)
                code = 0
            except Exception:  # noqa: BLE001 - shown, and the job counts as failed
                sys.excepthook(*sys.exc_info())
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        children.append(child)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))
    left = list(children)
    try:
        while left:
            if os.waitpid(left[0], 0)[1]:
                raise SystemExit("a job of the fuzzer failed")
            del left[0]
    finally:
        for child in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGTERM)  # its own child ends when nobody listens any more
    return results


def _job(asked: argparse.Namespace, folder: Path, result: Path, job: int, begun: float) -> None:
    campaign = Campaign(folder, asked.found, asked.seed, asked.plainly)
    if result.exists():
        campaign.tally = merged([result])
    result.parent.mkdir(parents=True, exist_ok=True)
    save(campaign.tally, result)
    campaign.prepare()
    numbers = itertools.islice(
        itertools.count(job, asked.jobs), campaign.tally.n_begun, max(campaign.tally.n_begun, asked.files // asked.jobs)
    )
    for tally in campaign.run(numbers):
        save(tally, result)
        spent = time.monotonic() - begun
        print(f"job {job}: {tally.n_files} files, {spent:.0f} s, {dict(tally.outcomes)}", file=sys.stderr, flush=True)
        if spent > asked.seconds:
            return


def _without_a_tally(asked: argparse.Namespace) -> int:
    """Every good file read, or one file of a seed made again."""
    with tempfile.TemporaryDirectory(prefix="colonnade-fuzz-", dir=_fast_folder()) as folder:
        Path(folder).chmod(0o755)  # children are nobody
        campaign = Campaign(Path(folder) / "0", asked.found, asked.seed, asked.plainly)
        campaign.prepare()
        if asked.seeds:
            campaign.read_seeds(seed.name for seed in campaign.seeds)
            print(f"{len(campaign.right)} good files read")
        else:
            print(campaign.make_again(asked.make))
    return 0


def _read_one(path: Path) -> int:
    """Here, for debuggers, but as nobody: the folder is then left to whoever may remove it."""
    data = path.read_bytes()
    folder = Path(tempfile.mkdtemp(prefix="colonnade-fuzz-one-", dir=_fast_folder()))
    import_everything(folder / "warm")
    import_library()
    from tools.fuzz.library_readers import read_with_library  # late: it loads h5py

    for place in (folder, folder / "warm"):
        place.chmod(0o777)
    drop_rights()
    one = folder / "one.h5"
    one.write_bytes(data)
    os.chdir(folder)
    answers = read_with_library(one, folder / "aside.h5", read_plainly(one))
    for step, answer in answers.steps.items():
        print(f"{step}: {answer}")
    for bug in answers.bugs:
        print(f"BUG {bug}")
    return 1 if answers.bugs else 0


def _read_limited(paths: list[Path]) -> int:
    """The same in children, a line a file; 1 for a crash, a hang, or a bug."""
    with tempfile.TemporaryDirectory(prefix="colonnade-fuzz-", dir=_fast_folder()) as folder:
        Path(folder).chmod(0o755)  # children are nobody
        outcomes = Campaign(Path(folder) / "0", Path(folder) / "found", 0).read_alone(paths)
    faults = [o.trouble or "; ".join(o.result["bugs"]) for o in outcomes]
    for path, fault in zip(paths, faults, strict=True):
        print(f"{path.name}: {fault or 'fine'}")
    return 1 if any(faults) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
