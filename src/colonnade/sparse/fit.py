"""Values given by a caller in the dtype that is stored, and which of them that dtype cannot hold.

| from | to | what does not fit |
| --- | --- | --- |
| whole numbers | whole numbers | what would become another number: too large, or below zero where there is no sign |
| whole numbers | floats, complex | what would be rounded |
| floats | whole numbers | fractions, NaN, infinities, and what lies beyond the ends |
| floats, complex | floats, complex | finite numbers that would become infinite; rounding is what is asked for |
| complex | without imaginary part | those that have one; else as their real part |
| records | records | a record one of whose fields does not fit |
| anything else | | what does not come back as it was |

No answer is taken from a conversion that C leaves undefined: ranges are compared before a number is converted back.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Values = np.ndarray[Any, Any]
Flags = np.ndarray[Any, np.dtype[np.bool_]]


def fitted(given: Values, dtype: np.dtype[Any]) -> tuple[Values, Flags]:
    """The values in that dtype, and which of them do not fit into it. Errors of NumPy's for what it cannot convert."""
    values = given if dtype.kind == "V" else _plain(given)
    with np.errstate(all="ignore"):
        if values.dtype.kind == "c" and dtype.kind in "iuf":
            made, wrong = fitted(values.real, dtype)
            return made, wrong | ~(values.imag == 0)
        made = values.astype(dtype)
        return made, _misfits(values, made)


def _plain(values: Values) -> Values:
    """Python objects as NumPy would have made an array of a list of them."""
    if values.dtype.kind != "O":
        return values
    made = np.asarray(values.tolist())
    return made if made.shape == values.shape else values


def _misfits(values: Values, made: Values) -> Flags:
    if values.dtype.names and made.dtype.names:
        wrong = np.zeros(values.shape, dtype=bool)
        for old, new in zip(values.dtype.names, made.dtype.names, strict=True):
            inner = fitted(values[old], made[new].dtype)[1]
            wrong |= inner.any(axis=tuple(range(values.ndim, inner.ndim)))
        return wrong
    source, target = values.dtype.kind, made.dtype.kind
    if source in "biu" and target in "iu":
        return _flags((made.astype(values.dtype) != values) | ((made < 0) != (values < 0)))
    if source in "biu" and target in "fc":
        return _rounded(values, made.real.astype(np.float64))
    if source == "f" and target in "iu":
        return _no_whole(values, made)
    if source in "fc" and target in "fc":
        return _flags(np.isfinite(values) & ~np.isfinite(made))
    back = made.astype(values.dtype)
    return _flags(back != values) if source in "biufcSUO" else np.zeros(values.shape, dtype=bool)


def _rounded(values: Values, made: Values) -> Flags:
    """Which whole numbers are not what they were as floats."""
    beyond = 2.0 ** (8 * values.dtype.itemsize - (values.dtype.kind == "i")) if values.dtype.kind != "b" else 2.0
    inside = np.isfinite(made) & (made < beyond)
    return _flags(~inside | (np.where(inside, made, 0).astype(values.dtype) != values))


def _no_whole(values: Values, made: Values) -> Flags:
    """Which floats are no whole numbers that these have room for."""
    wide = values.astype(np.promote_types(values.dtype, np.float64))
    limits = np.iinfo(made.dtype)
    inside = (wide >= float(limits.min)) & (wide < 2.0 ** int(limits.max).bit_length())
    return _flags(~inside | (made.astype(wide.dtype) != wide))


def _flags(found: Any) -> Flags:
    return np.asarray(found, dtype=bool)
