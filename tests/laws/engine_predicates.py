"""Random filters over the columns of `tests.rooms.engine_rows`: as SQL, for Polars and for pyarrow."""

from __future__ import annotations

import datetime as dt
import random
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from tests.rooms.engine_rows import INF, POOLS


def sql_literal(value: Any, name: str, dialect: str) -> str:
    is_duckdb = dialect == "duckdb"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        kind = "float" if name == "f32" and is_duckdb else "double"
        word = "'nan'" if value != value else "'inf'" if value == INF else "'-inf'" if value == -INF else repr(value)  # noqa: PLR0124
        return f"cast({word} as {kind})"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, bytes):
        escaped = "".join(f"\\x{octet:02X}" for octet in value)
        return f"'{escaped}'::blob" if is_duckdb else f"X'{value.hex()}'"
    if isinstance(value, np.datetime64):
        return f"timestamp_ns '{str(value).replace('T', ' ')}'" if is_duckdb else f"timestamp '{value}'"
    if isinstance(value, dt.datetime):
        if value.tzinfo is None:
            return f"timestamp '{value.isoformat(' ')}'"
        return f"timestamptz '{value:%Y-%m-%d %H:%M:%S}+00'" if is_duckdb else f"timestamp '{value:%Y-%m-%dT%H:%M:%S}Z'"
    if isinstance(value, dt.date):
        return f"date '{value}'"
    return f"time '{value}'" if isinstance(value, dt.time) else str(value)


def sql_filter(rng: random.Random, dialect: str = "duckdb", names: list[str] | None = None, depth: int = 2) -> str:
    if depth and rng.random() < 0.55:
        word = rng.choice(("and", "or", "and", "not"))
        left, right = (sql_filter(rng, dialect, names, depth - 1) for _ in range(2))
        return f"(not {left})" if word == "not" else f"({left} {word} {right})"
    name = rng.choice(names or list(POOLS))
    pool = POOLS[name][1]

    def literal() -> str:
        return sql_literal(rng.choice(pool), name, dialect)

    form = rng.randrange(10)
    if form < 5:
        return f"({name} {rng.choice(('=', '<>', '<', '<=', '>', '>='))} {literal()})"
    if form == 5:
        return f"({name} between {literal()} and {literal()})"
    if form == 6:
        return f"({name} {rng.choice(('', 'not '))}in ({', '.join(literal() for _ in range(rng.randint(1, 4)))}))"
    if form == 7:
        return f"({name} is {rng.choice(('', 'not '))}null)"
    if form == 8 and name in ("s", "k"):
        return f"({name} like '{rng.choice(('a%', '%b', 'a_c', '%o%', 'mu%'))}')"
    if form == 9 and name == "b":
        return rng.choice(("b", "(not b)"))
    return f"({literal()} {rng.choice(('<', '='))} {name})"


def _polars_value(rng: random.Random, name: str) -> Any:
    value = rng.choice(POOLS[name][1])
    if isinstance(value, np.datetime64):
        return pl.lit(int(value.astype("i8"))).cast(pl.Datetime("ns"))
    return pl.lit(value).dt.convert_time_zone("Europe/Berlin") if name == "z_ms" else value


def polars_filter(rng: random.Random, depth: int = 2) -> pl.Expr:
    if depth and rng.random() < 0.6:
        word = rng.choice(("and", "or", "and", "not", "when"))
        left, right = polars_filter(rng, depth - 1), polars_filter(rng, depth - 1)
        if word == "when":
            return pl.when(left).then(right).otherwise(polars_filter(rng, depth - 1))
        return ~left if word == "not" else left & right if word == "and" else left | right
    name = rng.choice(list(POOLS))
    column, form = pl.col(name), rng.randrange(11)
    if form < 5:
        value = _polars_value(rng, name)
        if rng.random() < 0.3:
            left = value if isinstance(value, pl.Expr) else pl.lit(value)
            return rng.choice((left.__eq__, left.__lt__, left.__le__, left.__gt__, left.__ge__))(column)
        operators = (column.__eq__, column.__ne__, column.__lt__, column.__le__, column.__gt__, column.__ge__)
        return rng.choice(operators)(value)
    if form == 5:
        low, high = (pl.lit(v) if isinstance(v, str) else v for v in (_polars_value(rng, name) for _ in range(2)))
        return column.is_between(low, high, closed=rng.choice(("both", "left", "right", "none")))
    if form == 6 and name not in ("t_s", "t_ns", "z_ms", "z_us", "dec"):
        return column.is_in([_polars_value(rng, name) for _ in range(rng.randint(1, 4))])
    if form == 7:
        return rng.choice((column.is_null, column.is_not_null))()
    if form == 8 and name in ("s", "k"):
        patterns = (column.str.starts_with("a"), column.str.contains("o", literal=True), column.str.ends_with("n"))
        return rng.choice(patterns)
    if form == 9 and name in ("f32", "f64"):
        return rng.choice((column.is_nan, column.is_not_nan))()
    if form == 10 and name not in ("t_ns", "z_ms"):
        return rng.choice((column.eq_missing, column.ne_missing))(_polars_value(rng, name))
    return column.is_not_null()


ARROW_NAMES = [name for name in POOLS if name not in ("u64", "i64", "dec")]  # pyarrow fails to cast their literals


def arrow_filter(rng: random.Random, depth: int = 3) -> pc.Expression:
    if depth and rng.random() < 0.6:
        word = rng.choice(("and", "or", "not", "xor", "if"))
        parts: list[Any] = [arrow_filter(rng, depth - 1) for _ in range(3)]
        joined: dict[str, pc.Expression] = {
            "and": parts[0] & parts[1],
            "or": parts[0] | parts[1],
            "not": ~parts[0],
            "xor": pc.xor(parts[0], parts[1]),
            "if": pc.if_else(parts[0], parts[1], parts[2]),
        }
        return joined[word]
    name = rng.choice(ARROW_NAMES)
    kind, pool = POOLS[name]
    field: Any = pc.field(name)
    form = rng.randrange(9)
    if form < 4:
        left, right = field, pc.scalar(pa.scalar(rng.choice(pool), kind))
        if rng.random() < 0.3:
            left, right = right, left
        operators = (left.__eq__, left.__ne__, left.__lt__, left.__le__, left.__gt__, left.__ge__)
        return rng.choice(operators)(right)
    if form == 4:
        values = [rng.choice(pool) for _ in range(3)] + ([None] if rng.random() < 0.3 else [])
        return pc.is_in(field, pa.array(values, kind), skip_nulls=rng.random() < 0.3)
    if form == 5:
        return rng.choice((field.is_null(), field.is_valid(), field.is_null(nan_is_null=True)))
    if form == 6 and name in ("s", "k"):
        patterns = (pc.starts_with(field, "a"), pc.match_substring(field, "o"), pc.match_like(field, "%b"))
        return rng.choice(patterns)
    if form == 7 and name in ("f32", "f64"):
        return rng.choice((pc.is_nan(field), field != field, field == field))  # noqa: PLR0124
    return field if name == "b" else field.is_valid()
