"""The libraries that are compared, one file each. A new one is a file and a line here."""

from __future__ import annotations

from bench.peers.base import Peer
from bench.peers.colonnade import Colonnade
from bench.peers.duckdb import DuckDBDefault, DuckDBLarge, DuckDBNative, DuckDBSmall
from bench.peers.h5col import H5Col
from bench.peers.h5py import H5pyByHand
from bench.peers.lance import Lance
from bench.peers.polars import PolarsDefault, PolarsLarge, PolarsSmall
from bench.peers.pyarrow import PyArrowDefault, PyArrowLarge, PyArrowSmall
from bench.peers.pytables import PyTables, PyTablesBlosc
from bench.peers.vortex import Vortex

PEERS: tuple[type[Peer], ...] = (
    Colonnade,
    DuckDBDefault,
    DuckDBSmall,
    DuckDBLarge,
    DuckDBNative,
    PolarsDefault,
    PolarsSmall,
    PolarsLarge,
    PyArrowDefault,
    PyArrowSmall,
    PyArrowLarge,
    Vortex,
    Lance,
    PyTables,
    PyTablesBlosc,
    H5pyByHand,
    H5Col,
)

__all__ = ["PEERS", "Peer"]
