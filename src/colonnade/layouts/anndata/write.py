"""AnnData data frames are read here, and not changed yet: every change is refused by its name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from colonnade.errors import UnsupportedError


def refuse(what: str) -> Callable[..., NoReturn]:
    """A function that refuses a change, whatever it is given."""

    def refused(*_given: Any) -> NoReturn:
        raise UnsupportedError(
            f"{what} is not possible yet for an AnnData data frame: it can only be read "
            "(write_element replaces one as a whole)",
            feature=f"anndata: {what}",
        )

    return refused


def no_indexes(_group: Any, _info: Any) -> list[Any]:
    """A frame has no search indexes yet."""
    return []
