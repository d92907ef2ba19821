"""The quick dataclass against the standard one: the same classes made by both, the same behaviour."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, asdict, field, fields, replace
from functools import cached_property
from typing import Any

import pytest

from colonnade.dataclass import dataclass as typed_dataclass
from colonnade.dataclass import replace as quick_replace
from colonnade.predicate.columns import col

quick: Any = typed_dataclass
Maker = Callable[..., Any]
both = pytest.mark.parametrize("make", [quick, dataclasses.dataclass], ids=["quick", "standard"])


@quick(frozen=True, slots=True)
class Point:
    """Kept at the top of the module, so that it can be pickled."""

    x: int
    y: tuple[int, ...] = ()


@quick(frozen=True)
class Loose:
    x: int

    @cached_property
    def twice(self) -> int:
        return 2 * self.x


def shapes(make: Maker) -> dict[str, Any]:
    """Classes with all that this package uses."""

    @make
    class Open:
        a: int
        b: list[int] = field(default_factory=list)
        c: str = field(init=False, default="c")
        d: Any = field(init=False)
        e: int = field(default=5, compare=False, repr=False)

        def __post_init__(self) -> None:
            self.d = self.a + 1

    class Below(Open):
        def __post_init__(self) -> None:
            self.d = "below"

    @make(frozen=True, slots=True)
    class Base:
        a: int
        b: int = 2

    @make(frozen=True, slots=True)
    class More(Base):
        c: int = 3

        def __repr__(self) -> str:
            return "more"

    @make(frozen=True)
    class Empty:
        """Nothing in it."""

    @make(frozen=True, eq=False)
    class Alone:
        a: int

    @make
    class OwnEqual:  # noqa: PLW1641
        a: int

        def __eq__(self, other: object) -> bool:
            return True

    return {one.__name__: one for one in (Open, Below, Base, More, Empty, Alone, OwnEqual)}


def shown(record: object) -> str:
    return repr(record).replace("shapes.<locals>.", "")


@both
def test_values_defaults_and_factories(make: Maker) -> None:
    open_class, below = shapes(make)["Open"], shapes(make)["Below"]
    one, other = open_class(1), open_class(1, b=[])
    assert (one.a, one.b, one.c, one.d, one.e) == (1, [], "c", 2, 5)
    assert one.b is not other.b
    assert one == other == open_class(1, [], 7) and one != open_class(2) and one != "text"
    assert shown(one) == "Open(a=1, b=[], c='c', d=2)"
    assert below(1).d == "below" and below(1) != one
    with pytest.raises(TypeError):
        open_class()
    with pytest.raises(TypeError, match="unhashable"):
        hash(one)
    one.a = 3
    assert one.a == 3


@both
def test_frozen_records(make: Maker) -> None:
    found = shapes(make)
    base, more, empty = found["Base"](1), found["More"](1, c=4), found["Empty"]()
    assert base == found["Base"](1, 2) and hash(base) == hash(found["Base"](1, 2)) and base != found["Base"](1, 3)
    assert (more.a, more.b, more.c) == (1, 2, 4) and repr(more) == "more" and more != base
    assert not hasattr(more, "__dict__") and more.__slots__ == ("c",)
    assert empty == found["Empty"]() and len({empty, found["Empty"]()}) == 1 and shown(empty) == "Empty()"
    for change in (lambda: setattr(base, "a", 5), lambda: setattr(base, "z", 5), lambda: delattr(base, "a")):
        with pytest.raises((FrozenInstanceError, TypeError)):  # the standard one, with slots, has a TypeError for "z"
            change()
    assert found["More"].__match_args__ == ("a", "b", "c")


@both
def test_methods_that_are_written_stay(make: Maker) -> None:
    found = shapes(make)
    assert found["Alone"](1) != found["Alone"](1) and len({found["Alone"](1), found["Alone"](1)}) == 2
    assert found["OwnEqual"](1) == found["OwnEqual"](2)
    with pytest.raises(TypeError):
        hash(found["OwnEqual"](1))


def test_nan_is_itself() -> None:
    """As in tuples: a value is equal to itself, whatever it says. (So with standard dataclasses before Python 3.13.)"""
    nan, base = float("nan"), shapes(quick)["Base"]
    assert base(nan) == base(nan) and base(nan) != base(float("nan"))


@both
def test_functions_of_the_standard_library(make: Maker) -> None:
    found = shapes(make)
    more = replace(found["More"](1), b=7)
    assert asdict(more) == {"a": 1, "b": 7, "c": 3}
    assert [one.name for one in fields(found["Below"])] == ["a", "b", "c", "d", "e"]
    assert [(one.name, one.type, one.default) for one in fields(more)][1:] == [("b", "int", 2), ("c", "int", 3)]
    assert replace(found["Open"](1, [2]), a=4).d == 5
    assert dataclasses.is_dataclass(more)
    with pytest.raises(TypeError):
        replace(more, z=1)  # type: ignore[type-var]


def test_everything_a_standard_dataclass_has_is_there() -> None:
    """Other libraries look for more than the fields: dask for __dataclass_params__, copy.replace for __replace__."""
    mine, standard = shapes(quick), shapes(dataclasses.dataclass)
    for name, one in mine.items():
        wanted = set(dir(standard[name])) - {"__weakref__"}  # which Python 3.11.2 leaves there by mistake
        assert wanted <= set(dir(one)), name
        assert wanted <= set(dir(one(*[1] * (name != "Empty")))), name
        params, truth = one.__dataclass_params__, standard[name].__dataclass_params__
        assert repr(params) == repr(truth), name
        assert [(f.name, f.type, f.init, f.kw_only) for f in fields(one)] == [
            (f.name, f.type, f.init, f.kw_only) for f in fields(standard[name])
        ], name


@both
def test_replace_is_found_by_copy(make: Maker) -> None:
    if hasattr(copy, "replace"):  # since Python 3.13
        assert copy.replace(shapes(make)["Base"](1), b=7).b == 7


def test_dask_makes_tokens_of_predicates() -> None:
    tokenize = pytest.importorskip("dask.base").tokenize
    one, same = ((col("a") > 1) & ~(col("b") == "x") for _ in range(2))
    assert tokenize(one) == tokenize(same) != tokenize((col("a") > 2) & ~(col("b") == "x"))


def test_signatures_are_the_standard_ones() -> None:
    mine, standard = shapes(quick), shapes(dataclasses.dataclass)
    for name, one in mine.items():
        assert str(inspect.signature(one)) == str(inspect.signature(standard[name])), name


@both
def test_a_default_that_would_be_shared_is_refused(make: Maker) -> None:
    with pytest.raises(ValueError, match="default_factory"):

        @make
        class Shared:
            a: list[int] = []  # noqa: RUF012


def test_copies() -> None:
    for one in (Point(1, (2, 3)), Loose(4)):  # type: ignore[call-arg]
        assert copy.copy(one) == one and copy.deepcopy(one) == one
        assert pickle.loads(pickle.dumps(one)) == one
    assert Loose(4).twice == 8  # type: ignore[call-arg]


@pytest.mark.parametrize("n_before", [0, 100], ids=["not compiled", "compiled"])
def test_the_first_objects_are_like_later_ones(n_before: int) -> None:
    """`__init__` is compiled when many objects are created: before and after that it takes the same arguments."""
    made = shapes(quick)
    for _ in range(n_before):
        made["Open"](1), made["Below"](1), made["Base"](1)
    for make in (made, shapes(dataclasses.dataclass)):
        record = make["Open"](1, e=7)
        assert (record.a, record.b, record.c, record.d, record.e) == (1, [], "c", 2, 7)
        assert make["Open"](1).b is not make["Open"](1).b
        assert make["Below"](1, [2]).d == "below"
        wrong: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
            ((), {}), ((1, [], 3, 4), {}), ((1,), {"a": 2}), ((1,), {"c": "x"}), ((1,), {"z": 1}),
        ]  # fmt: skip
        for args, given in wrong:
            with pytest.raises(TypeError):
                make["Open"](*args, **given)


def test_the_method_of_the_class_itself_is_compiled() -> None:
    """`inspect` of Python 3.13 binds `__init__` to the class; only a compiled one has the standard signature."""

    @quick
    class Pair:
        x: int
        y: int = 2

    bound = vars(Pair)["__init__"].__get__(Pair, type(Pair))
    assert str(inspect.signature(bound)) == "(x: 'int', y: 'int' = 2) -> None"


def test_members_that_are_not_arguments_cannot_be_replaced() -> None:
    @quick
    class Counter:
        start: int
        seen: int = field(default=0, init=False)

    make: Any = Counter
    assert quick_replace(make(1), start=5) == make(5)
    with pytest.raises(TypeError, match="seen of Counter cannot be changed: it is not an argument"):
        quick_replace(make(1), seen=3)


@both
def test_a_derived_class_with_an_init_of_its_own_calls_that_of_its_base(make: Maker) -> None:
    """Also for the object that is created as the base's is compiled."""

    @make
    class Base:
        a: int
        b: int

    class Derived(Base):
        def __init__(self, a: int, b: int, c: int) -> None:
            super().__init__(a, b)  # type: ignore[call-arg] # the decorator makes it
            self.c = c

    created = [Derived(number, 2, 3) for number in range(200)]
    assert all((one.a, one.b, one.c) == (number, 2, 3) for number, one in enumerate(created))
