"""What anndata's own generator makes, of what anndata itself can write."""

from __future__ import annotations

import warnings
from typing import Any

import anndata
import numpy as np
from anndata.tests.helpers import gen_adata


def generated(shape: tuple[int, int], **options: Any) -> anndata.AnnData:
    """An AnnData object of every kind of element, less what the generator adds where xarray is installed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = gen_adata(shape, random_state=np.random.default_rng(3), **options)
    for home in (made.obsm, made.varm):
        home.pop("xdataset", None)
    return made
