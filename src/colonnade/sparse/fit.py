"""Convert a caller's values to the stored dtype, and report which of them it cannot hold.

| from | to | values that do not fit |
| --- | --- | --- |
| integers | integers | those out of range: too large, or negative for an unsigned type |
| integers | floats, complex | those that would be rounded |
| floats | integers | fractions, NaN, infinities, and values out of range |
| floats, complex | floats, complex | finite values that would become infinite; rounding is expected |
| complex | real types | those with an imaginary part; else as for the real part |
| records | records | records with a field that does not fit |
| anything else | | values that change in a round trip |

The result never depends on a conversion that is undefined in C: ranges are compared before converting back.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Values = np.ndarray[Any, Any]
Flags = np.ndarray[Any, np.dtype[np.bool_]]


def fitted(given: Values, dtype: np.dtype[Any]) -> tuple[Values, Flags]:
    """The values in that dtype, and a mask of those that do not fit. NumPy raises for what it cannot convert."""
    values = given if dtype.kind == "V" else _plain(given)
    with np.errstate(all="ignore"):
        if values.dtype.kind == "c" and dtype.kind in "iuf":
            made, wrong = fitted(values.real, dtype)
            return made, wrong | ~(values.imag == 0)
        made = values.astype(dtype)
        return made, _misfits(values, made)


def _plain(values: Values) -> Values:
    """An array of Python objects in the dtype that NumPy would choose for a list of them."""
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
    """A mask of the integers that were rounded by the conversion to float."""
    beyond = 2.0 ** (8 * values.dtype.itemsize - (values.dtype.kind == "i")) if values.dtype.kind != "b" else 2.0
    inside = np.isfinite(made) & (made < beyond)
    return _flags(~inside | (np.where(inside, made, 0).astype(values.dtype) != values))


def _no_whole(values: Values, made: Values) -> Flags:
    """A mask of the floats that are not integers in the range of the new type."""
    wide = values.astype(np.promote_types(values.dtype, np.float64))
    limits = np.iinfo(made.dtype)
    inside = (wide >= float(limits.min)) & (wide < 2.0 ** int(limits.max).bit_length())
    return _flags(~inside | (made.astype(wide.dtype) != wide))


def _flags(found: Any) -> Flags:
    return np.asarray(found, dtype=bool)
