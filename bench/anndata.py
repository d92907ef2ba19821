"""A query on the obs of a large `.h5ad` file: colonnade against anndata, each in a separate process.

    python -m bench.anndata                          5 million cells, 30 columns
    python -m bench.anndata --cells 1_000_000 --repeats 5 --folder /tmp/cells

The file is written by anndata. Both open it and select about 1 % of the rows by two predicates, with all 30 columns,
as a pandas frame. CPU time and peak memory are reported for the start (imports) and for the work after it. colonnade
runs once as a plain scan, once with only the two columns that the predicates name, and once with a bitmap of the cell
types if the layout has search indexes. "To Arrow" needs no pandas. Shares of "work" exclude the start, shares of
"whole" include it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

N_TYPES, N_DONORS = 50, 200
COLUMNS = 30
CHILD = """
import json, sys, time
path, what, threshold, kind = sys.argv[1], sys.argv[2], float(sys.argv[3]), sys.argv[4]
def memory(kind):  # ru_maxrss would count the process that started this one
    with open("/proc/self/status") as status:
        found = dict(line.split(":", 1) for line in status)
    return int(found[kind].split()[0]) * 1024
if what != "arrow":
    import pandas
if what == "anndata":
    import warnings
    warnings.simplefilter("ignore")
    import anndata
    anndata.AnnData
else:
    import pyarrow, pyarrow.compute
    import colonnade as cn
    cn.open, cn.Table
start, before = time.process_time(), memory("VmRSS")
wall = time.perf_counter()
if what == "anndata":
    obs = anndata.read_h5ad(path, backed="r").obs
    found = obs[(obs["n_genes"] > threshold) & (obs["cell_type"] == kind)]
else:
    with cn.open(path, trust="always") as file:
        rows = file["obs"].where((cn.col("n_genes") > threshold) & (cn.col("cell_type") == kind))
        if what == "columns":
            rows = rows.select("n_genes", "cell_type")
        found = rows.to_arrow() if what == "arrow" else rows.to_pandas()
cpu, wall = time.process_time() - start, time.perf_counter() - wall
peak = memory("VmHWM")
if what == "arrow":
    names, total = found["_index"], float(pyarrow.compute.sum(found["n_genes"]).as_py())
    shape = (found.num_rows, found.num_columns - 1)
else:
    names, total, shape = found.index, float(found["n_genes"].sum()), found.shape
print(json.dumps({
    "start_cpu": start, "cpu": cpu, "wall": wall, "start_memory": before, "peak": peak, "rows": shape[0],
    "columns": shape[1], "sum": total, "names": [str(names[0]), str(names[-1])] if what != "columns" else [],
}))
"""


def make_file(path: Path, n_cells: int) -> None:
    """Write an `.h5ad` file with this number of cells, using anndata."""
    import anndata
    import pandas as pd
    import scipy.sparse

    random = np.random.default_rng(8)
    types = np.array([f"type {number}" for number in range(N_TYPES)])
    columns: dict[str, Any] = {
        "n_genes": random.integers(200, 10_200, n_cells, dtype="i4"),
        "cell_type": pd.Categorical.from_codes(random.integers(0, N_TYPES, n_cells, dtype="i1"), types),
        "donor": pd.Categorical.from_codes(
            random.integers(0, N_DONORS, n_cells, dtype="i2"), [f"donor {number}" for number in range(N_DONORS)]
        ),
    }
    for number in range(4):
        codes = random.integers(-1, 8, n_cells, dtype="i1")
        columns[f"group_{number}"] = pd.Categorical.from_codes(codes, [f"g{number}" for number in range(8)])
    for number in range(12):
        columns[f"score_{number}"] = random.standard_normal(n_cells, dtype="f4")
    for number in range(6):
        columns[f"count_{number}"] = random.integers(0, 100_000, n_cells, dtype="i8")
    for number in range(4):
        columns[f"is_{number}"] = random.integers(0, 2, n_cells, dtype="i1").astype(bool)
    columns["phase"] = pd.Categorical.from_codes(random.integers(0, 3, n_cells, dtype="i1"), ["G1", "S", "G2M"])
    assert len(columns) == COLUMNS
    names = np.char.add("CELL-", np.char.zfill(np.arange(n_cells).astype(str), 9))
    made = anndata.AnnData(
        scipy.sparse.csr_matrix((n_cells, 10), dtype="f4"), obs=pd.DataFrame(columns, index=names.astype(object))
    )
    made.write_h5ad(path)


def measure(path: Path, what: str, repeats: int) -> dict[str, Any]:
    """The best of several runs, each in a new process."""
    arguments = [sys.executable, "-c", CHILD, str(path), what, "5200", "type 7"]
    runs = [json.loads(subprocess.run(arguments, capture_output=True, check=True).stdout) for _ in range(repeats)]
    best: dict[str, Any] = min(runs, key=lambda run: run["cpu"])
    return best | {"work_memory": best["peak"] - best["start_memory"]}


def with_index(path: Path) -> Path | None:
    """A copy of the file with a bitmap of the cell types; None if the layout has no indexes yet."""
    import shutil

    import colonnade as cn

    copy = path.with_name("indexed.h5ad")
    shutil.copy(path, copy)
    try:
        with cn.open(copy, "r+") as file:
            file["obs"].build_index("cell_type", "bitmap")
    except cn.errors.UnsupportedError:
        copy.unlink()
        return None
    return copy


def _whole_cpu(one: dict[str, Any]) -> float:
    return float(one["start_cpu"] + one["cpu"])


def report(found: dict[str, dict[str, Any]]) -> str:
    theirs = found["anndata"]
    lines = [
        "| who | start | work | work, share | whole, share | start, MB | work, MB | share | whole, share | rows |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, one in found.items():
        cpu, whole = one["cpu"] / theirs["cpu"], _whole_cpu(one) / _whole_cpu(theirs)
        memory, peak = one["work_memory"] / theirs["work_memory"], one["peak"] / theirs["peak"]
        lines.append(
            f"| {name} | {one['start_cpu']:.2f} s | {one['cpu']:.2f} s | {cpu:.1%} | {whole:.1%} "
            f"| {one['start_memory'] >> 20} | {one['work_memory'] >> 20} | {memory:.1%} | {peak:.1%} "
            f"| {one['rows']:,} x {one['columns']} |"
        )
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--cells", type=int, default=5_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "colonnade-cells")
    parser.add_argument("--json", type=Path, help="write every figure there")
    asked = parser.parse_args(arguments)
    asked.folder.mkdir(parents=True, exist_ok=True)
    path = asked.folder / f"cells-{asked.cells}.h5ad"
    if not path.exists():
        make_file(path, asked.cells)
    found = {"anndata": measure(path, "anndata", asked.repeats)}
    found["colonnade, scan"] = measure(path, "colonnade", asked.repeats)
    found["colonnade, scan to Arrow"] = measure(path, "arrow", asked.repeats)
    found["colonnade, two columns"] = measure(path, "columns", asked.repeats)
    indexed = with_index(path)
    if indexed is not None:
        found["colonnade, bitmap"] = measure(indexed, "colonnade", asked.repeats)
        indexed.unlink()
    print(f"{asked.cells:,} cells, {path.stat().st_size >> 20} MB\n\n{report(found)}")
    if indexed is None:
        print("\nno search indexes: the layout has none yet")
    if asked.json is not None:
        asked.json.write_text(json.dumps({"cells": asked.cells, "found": found}, indent=1) + "\n")
    answers = {(one["rows"], one["sum"]) for one in found.values()}
    whole = {(one["columns"], *one["names"]) for name, one in found.items() if "two" not in name}
    return 0 if len(answers) == 1 and len(whole) == 1 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
