"""NWB files made by pynwb, for tests; and DynamicTables in the same form made by h5py, where pynwb is not installed.

python -m tests.rooms.nwb_files     writes the golden file and its manifest again
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import h5py
import numpy as np

GOLDEN = Path(__file__).parent.parent / "golden" / "nwb"
SESSION, MANIFEST = GOLDEN / "session.nwb", GOLDEN / "manifest.json"
HAS_PYNWB = find_spec("pynwb") is not None
TRIALS, UNITS = "/intervals/trials", "/units"
ELECTRODES = "/general/extracellular_ephys/electrodes"
MINE = "/scratch/mine"


@contextmanager
def quiet() -> Iterator[None]:
    """hdmf and pynwb warn about deprecated parts of themselves."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def write_session(path: Path, cache_spec: bool = True) -> None:
    """A session with trials, units, electrodes, and a table with all that a DynamicTable may have."""
    with quiet():
        from pynwb import NWBHDF5IO

        with NWBHDF5IO(path, "w") as io:
            io.write(_session(), cache_spec=cache_spec)


def _session() -> Any:
    from hdmf.common import AlignedDynamicTable, DynamicTable, VectorData
    from pynwb import NWBFile, TimeSeries
    from pynwb.ecephys import ElectricalSeries

    nwb = NWBFile("a session", "id-1", datetime(2026, 1, 1, tzinfo=UTC))
    shank = nwb.create_electrode_group("shank0", "a shank", "CA1", nwb.create_device("probe"))
    nwb.add_electrode_column("label", "label of electrode")
    for number in range(5):
        nwb.add_electrode(x=float(number), location="CA1", group=shank, label=f"e{number}")
    region = nwb.create_electrode_table_region([0, 2], "two of them")
    nwb.add_acquisition(ElectricalSeries("voltage", np.zeros((10, 2)), region, rate=1.0))
    force = TimeSeries("force", np.arange(100.0), unit="N", rate=10.0)
    nwb.add_acquisition(force)
    nwb.add_trial_column("correct", "whether the choice was right")
    nwb.add_trial_column("choice", "left or right")
    for number in range(6):
        nwb.add_trial(
            start_time=float(number), stop_time=number + 0.5, correct=bool(number % 2),
            choice="left" if number % 3 else "right", tags=["a", "é"][: number % 2 + 1],
            timeseries=[force] * (number % 2 + 1),
        )  # fmt: skip
    nwb.add_unit_column("quality", "how well it is isolated")
    for number in range(4):
        nwb.add_unit(
            id=10 + number, spike_times=np.arange(3 * number) / 8 + number, obs_intervals=[[0.0, 1.0], [2.0, 3.0]],
            electrodes=[number, number + 1], waveform_mean=np.full(10, float(number)),
            quality="good" if number else "mua",
            waveforms=[[[1.0, 2.0, number]] * 2] * 2, electrode_group=shank,
        )  # fmt: skip
    mine = DynamicTable(name="mine", description="all kinds of columns", id=[5, 6, 7])
    mine.add_column(name="state", description="a code", data=[0, 1, 1], enum=["wake", "sleep"])
    mine.add_column(name="nested", description="lists of lists", data=[[["a"], ["b", "c"]], [], [[], ["d"]]], index=2)
    names = np.array([["a", "bb"], ["c", "d"], ["é", ""]], dtype=object)
    mine.add_column(name="pairs", description="strings of rank 2", data=names)
    mine.add_column(name="cube", description="rank 3", data=np.arange(12, dtype=">i4").reshape(3, 2, 2))
    nwb.add_scratch(mine)
    below = DynamicTable(name="below", description="d", columns=[VectorData(name="a", description="x", data=[1, 2, 3])])
    nwb.add_scratch(
        AlignedDynamicTable(
            name="aligned", description="two tables of one length", category_tables=[below], colnames=["m"],
            columns=[VectorData(name="m", description="x", data=[1, 2, 3])],
        )
    )  # fmt: skip
    return nwb


# -- what the packages themselves read --


def rows_by_pynwb(path: Path, name: str) -> list[dict[str, Any]]:
    """The rows of a table, read by pynwb, as Python values; references as the paths of what they lead to."""
    with quiet():
        from pynwb import NWBHDF5IO

        with NWBHDF5IO(path, "r") as io:
            nwb = io.read()
            table = {
                TRIALS: lambda: nwb.trials,
                UNITS: lambda: nwb.units,
                ELECTRODES: lambda: nwb.electrodes,
                MINE: lambda: nwb.scratch["mine"],
            }[name]()
            paths = {builder.name: path for path, builder in _paths(io)}
            identifiers = table.id[:].tolist()
            columns = {
                column: [plain(table[column][row], paths) for row in range(len(table))] for column in table.colnames
            }
    return [
        {**{column: values[row] for column, values in columns.items()}, "id": identifiers[row]}
        for row in range(len(identifiers))
    ]


def _paths(io: Any) -> Iterator[tuple[str, Any]]:
    builder = io.read_builder()
    pending = [("", builder)]
    while pending:
        path, group = pending.pop()
        yield path or "/", group
        pending += [(f"{path}/{name}", inner) for name, inner in group.groups.items()]


def plain(value: Any, paths: Mapping[str, str]) -> Any:
    """A value of pynwb or of colonnade as JSON holds it."""
    if type(value).__name__ == "Reference":
        return value.path
    if type(value).__name__ == "DataFrame":  # the rows that a region leads to
        return [int(row) for row in value.index]
    if type(value).__name__ == "TimeSeriesReference":
        return {"idx_start": int(value[0]), "count": int(value[1]), "timeseries": paths[value[2].name]}
    if hasattr(value, "neurodata_type"):
        return paths[value.name]
    if isinstance(value, Mapping):
        return {key: plain(inner, paths) for key, inner in value.items()}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (list, tuple, np.ndarray)):
        return [plain(item, paths) for item in value]
    return value


# -- DynamicTables made by h5py, in the form of hdmf --


def make_table(parent: Any, name: str, identifiers: Sequence[int], colnames: Sequence[str]) -> Any:
    """The group of a DynamicTable, with its identifiers."""
    group = parent.create_group(name)
    group.attrs["colnames"] = np.array(colnames, dtype=h5py.string_dtype()) if colnames else np.zeros(0)
    group.attrs["namespace"], group.attrs["neurodata_type"] = "hdmf-common", "DynamicTable"
    group.attrs["description"] = "made by h5py"
    add_data(group, "id", np.asarray(identifiers, dtype="i8"), "ElementIdentifiers")
    return group


def add_data(group: Any, name: str, data: Any, kind: str = "VectorData", **attributes: object) -> Any:
    """One dataset of a DynamicTable."""
    if isinstance(data, list) and data and isinstance(data[0], str):
        dataset = group.create_dataset(name, data=data, dtype=h5py.string_dtype())
    else:
        dataset = group.create_dataset(name, data=data)
    dataset.attrs["namespace"], dataset.attrs["neurodata_type"] = "hdmf-common", kind
    dataset.attrs["description"] = f"the column {name}"
    for key, value in attributes.items():
        dataset.attrs[key] = value
    return dataset


def add_index(group: Any, target: str, ends: Sequence[int], dtype: str = "u1") -> Any:
    """The VectorIndex of a column, or of another VectorIndex."""
    return add_data(group, f"{target}_index", np.asarray(ends, dtype=dtype), "VectorIndex", target=group[target].ref)


def make_units(path: Path) -> None:
    """A table with lists, and one whose rows they are: small, for tests of damage."""
    with h5py.File(path, "w") as file:
        add_data(make_table(file, "electrodes", range(4), ["x"]), "x", np.arange(4.0))
        group = make_table(file, "units", [10, 11, 12], ["spikes", "electrodes", "words", "pairs", "state"])
        add_data(group, "spikes", np.arange(6.0), unit="s")
        add_index(group, "spikes", [2, 2, 6])
        add_data(group, "electrodes", np.array([0, 1, 3, 3]), "DynamicTableRegion", table=file["electrodes"].ref)
        add_index(group, "electrodes", [1, 2, 4])
        add_data(group, "words", ["a", "b", "c", "d"])
        add_index(group, "words", [1, 1, 3, 4])
        add_index(group, "words_index", [2, 2, 4])
        add_data(group, "pairs", np.arange(6).reshape(3, 2))
        elements = add_data(group, "state_elements", ["wake", "sleep"])
        add_data(group, "state", np.array([0, 1, 0], "u1"), "EnumData", elements=elements.ref)


UNITS_ROWS = [
    {"spikes": [0.0, 1.0], "electrodes": [0], "words": [["a"], []], "pairs": [0, 1], "state": "wake", "id": 10},
    {"spikes": [], "electrodes": [1], "words": [], "pairs": [2, 3], "state": "sleep", "id": 11},
    {"spikes": [2.0, 3.0, 4.0, 5.0], "electrodes": [3, 3], "words": [["b", "c"], ["d"]], "pairs": [4, 5],
     "state": "wake", "id": 12},
]  # fmt: skip


if __name__ == "__main__":
    write_session(SESSION, cache_spec=False)
    expected = {name: rows_by_pynwb(SESSION, name) for name in (TRIALS, UNITS, ELECTRODES, MINE)}
    MANIFEST.write_text(
        json.dumps({"made_by": "pynwb, by tests/rooms/nwb_files.py", "tables": expected}, indent=1) + "\n"
    )
