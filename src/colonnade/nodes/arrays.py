"""Arrays of any rank, read whole or by boxes, whoever reads them. Boxes follow the grid of chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod

import numpy as np

from colonnade.dataclass import dataclass
from colonnade.nodes.elements import box_of, count_of, cut_box
from colonnade.nodes.protocols import Dataset


@dataclass(frozen=True)
class StreamedArray:
    """An array that is read block by block while it is written; each block comes with its position."""

    shape: tuple[int, ...]
    dtype: np.dtype
    blocks: Callable[[], Iterator[tuple[tuple[slice, ...], np.ndarray]]]

    @property
    def ndim(self) -> int:
        return len(self.shape)


def read_part(dataset: Dataset, part: tuple[slice, ...] = ()) -> np.ndarray:
    """The elements of a dataset, or a box of them; strings of variable length as `str`, also in compounds.

    A dataset that holds nothing, or claims far more than is stored, is refused before memory is allocated.
    """
    dataset.check_readable(prod(map(count_of, box_of(dataset.shape, part))))
    return dataset.read_array(part)


def boxes(dataset: Dataset, most_bytes: int) -> Iterator[tuple[slice, ...]]:
    """The dataset in boxes of at most `most_bytes` bytes (or one chunk, if that is more), in order."""
    whole = [range(length) for length in dataset.shape]
    for box in cut_box(whole, dataset.chunk_shape, dataset.array_dtype().itemsize, most_bytes):
        yield tuple(slice(axis.start, axis.stop) for axis in box)
