"""A replacement for the standard library's `dataclass` that costs a fraction at import.

The standard decorator compiles six methods for every class at every start, which would be most of the time to import
this package. Here only `__init__` is compiled, and only when many objects are created; all classes share the other
methods. Meaning and options are the standard ones, but only `frozen`, `slots` and `eq` are supported. `field`,
`fields`, `asdict` and `replace` of the standard library work with these classes; `replace` of this module does not
create the standard class first. A class can extend at most one dataclass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import MISSING, Field, FrozenInstanceError, field, make_dataclass
from functools import partial
from operator import attrgetter
from types import MethodType
from typing import TYPE_CHECKING, Protocol, cast

__all__ = ["dataclass", "replace"]

ClassMembers = dict[str, "Field[object]"]


class _Record(Protocol):
    """An object of such a class."""

    @property
    def __members__(self) -> ClassMembers: ...
    def __compared__(self, record: object, /) -> object: ...


class _Unset:
    """Marks an argument that was not given, for which a factory creates the value."""

    def __repr__(self) -> str:
        return "<factory>"


UNSET = _Unset()
_FEW_OBJECTS = 8  # that are created without a compiled `__init__`


class _Standard:
    """An attribute that the standard library and other libraries look for, created on first access."""

    def __init__(self, name: str, frozen: bool, slots: bool, eq: bool) -> None:
        self._name, self._options = name, {"frozen": frozen, "slots": slots, "eq": eq}

    def __get__(self, record: object, cls: type) -> object:
        named = [(name, member.type, member) for name, member in cls.__members__.items()]  # type: ignore[attr-defined]
        value: object = getattr(make_dataclass(cls.__name__, named, **self._options), self._name)  # type: ignore[arg-type]
        setattr(cls, self._name, value)
        return value


def quick_dataclass(
    cls: type | None = None, *, frozen: bool = False, slots: bool = False, eq: bool = True
) -> type | Callable[[type], type]:
    """The decorator, with or without options."""
    if cls is None:
        return lambda cls: _made(cls, frozen, slots, eq)
    return _made(cls, frozen, slots, eq)


def _made(cls: type, frozen: bool, slots: bool, eq: bool) -> type:
    own = {name: _member(cls, name, annotation) for name, annotation in cls.__annotations__.items()}
    members: ClassMembers = {**getattr(cls, "__members__", {}), **own}
    methods: dict[str, object] = {"__init__": _Init(members, frozen), "__repr__": _repr, "__replace__": _replaced}
    if eq:
        methods |= {"__eq__": _equal, "__hash__": _hash if frozen else None}
    if frozen:
        methods |= {"__setattr__": _refuse_to_set, "__delattr__": _refuse_to_delete}
    if frozen and slots:
        methods |= {"__getstate__": _state, "__setstate__": _set_state}
    given = {name: method for name, method in methods.items() if not _is_written(cls, name)}
    given["__members__"] = members
    given["__match_args__"] = tuple(name for name, member in members.items() if member.init)
    given["__compared__"] = attrgetter("__class__", *(name for name, member in members.items() if member.compare))
    given |= {name: _Standard(name, frozen, slots, eq) for name in ("__dataclass_fields__", "__dataclass_params__")}
    if slots:
        return _slotted(cls, own, given)
    for name, value in given.items():
        setattr(cls, name, value)
    return cls


def _is_written(cls: type, name: str) -> bool:
    """Whether the class body defines the method. Python sets `__hash__` to None if the body defines only `__eq__`."""
    return name in cls.__dict__ and not (name == "__hash__" and cls.__dict__[name] is None)


def _member(cls: type, name: str, annotation: object) -> Field[object]:
    """A member as defined in the class body; only its default stays on the class."""
    value = cls.__dict__.get(name, MISSING)
    member = value if isinstance(value, Field) else cast("Field[object]", field(default=value))
    if member.default.__class__.__hash__ is None:
        raise ValueError(f"the default of {cls.__qualname__}.{name} would be shared: use default_factory")
    if member.default is not MISSING:
        setattr(cls, name, member.default)
    elif member is value:
        delattr(cls, name)
    member.name, member.type = name, annotation
    return member


class _Init:
    """The `__init__` of a class. It is compiled when many objects are created, or it is inspected: compiling takes as
    long as creating some fifty objects without, and a short command creates objects of many classes, few of each."""

    def __init__(self, members: ClassMembers, frozen: bool) -> None:
        self._members, self._frozen = members, frozen
        self._names = [name for name, member in members.items() if member.init]
        self._n_created = 0

    def __get__(self, record: object, cls: type) -> Callable[..., None]:
        if record is None:
            return self._compiled(cls)
        if isinstance(record, type):  # `inspect` of Python 3.13 asks for the method of the class itself
            return MethodType(self._compiled(record), record)
        self._n_created += 1
        if self._n_created > _FEW_OBJECTS:
            return MethodType(self._compiled(cls), record)
        return partial(self._fill, record, cls)

    def _compiled(self, cls: type) -> Callable[..., None]:
        """The compiled form; a class derived from the one that has it may have an `__init__` of its own."""
        for base in cls.__mro__:
            if base.__dict__.get("__init__") is self:
                compiled = _init_of(base, self._members, self._frozen)
                setattr(base, "__init__", compiled)  # noqa: B010
                return compiled
        init: Callable[..., None] = getattr(cls, "__init__")  # noqa: B009
        return init

    def _fill(self, record: object, cls: type, /, *args: object, **given: object) -> None:
        values = dict(zip(self._names, args, strict=False))
        is_called_well = len(args) <= len(self._names) and values.keys().isdisjoint(given)
        values |= given
        for name, member in self._members.items():
            if name in values and member.init:
                value = values.pop(name)
            elif member.default is not MISSING:
                value = member.default
            elif member.default_factory is not MISSING:
                value = member.default_factory()
            else:
                is_called_well &= not member.init
                continue
            object.__setattr__(record, name, value)
        if values or not is_called_well:
            self._compiled(cls)(record, *args, **given)  # raises Python's own error
        elif hasattr(record, "__post_init__"):
            record.__post_init__()


def _init_of(cls: type, members: ClassMembers, frozen: bool) -> Callable[..., None]:
    scope: dict[str, object] = {"_set": object.__setattr__, "_unset": UNSET}
    arguments, lines = ["self"], []
    for name, member in members.items():
        value = name
        if member.default_factory is not MISSING:
            scope[f"_make_{name}"] = member.default_factory
            value = f"{name} if {name} is not _unset else _make_{name}()" if member.init else f"_make_{name}()"
            arguments += [f"{name}=_unset"] * member.init
        elif member.default is not MISSING:
            scope[f"_default_{name}"] = member.default
            value = name if member.init else f"_default_{name}"
            arguments += [f"{name}=_default_{name}"] * member.init
        elif member.init:
            arguments.append(name)
        else:
            continue
        lines.append(f"_set(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    exec(f"def __init__({', '.join(arguments)}):\n " + "\n ".join(lines or ["pass"]), scope)
    init = cast("Callable[..., None]", scope["__init__"])
    init.__module__, init.__qualname__ = cls.__module__, f"{cls.__qualname__}.__init__"
    init.__annotations__ = {name: member.type for name, member in members.items() if member.init} | {"return": None}
    return init


def _slotted(cls: type, own: Iterable[str], given: dict[str, object]) -> type:
    """Create the class again with slots: slots can only be defined when a class is created."""
    body = {name: value for name, value in cls.__dict__.items() if name not in ("__dict__", "__weakref__", *own)}
    slotted = type(cls)(cls.__name__, cls.__bases__, {**body, **given, "__slots__": tuple(own)})
    slotted.__qualname__ = cls.__qualname__
    return slotted


def _repr(self: _Record) -> str:
    shown = ", ".join(f"{name}={getattr(self, name)!r}" for name, member in self.__members__.items() if member.repr)
    return f"{self.__class__.__qualname__}({shown})"


def _equal(self: _Record, other: object) -> object:
    if other.__class__ is not self.__class__:
        return NotImplemented
    return self.__compared__(self) == self.__compared__(other)


def _hash(self: _Record) -> int:
    return hash(self.__compared__(self))


def _refuse_to_set(self: object, name: str, value: object) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(self: object, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: _Record) -> list[object]:
    return [getattr(self, name) for name in self.__members__]


def _set_state(self: _Record, state: list[object]) -> None:
    for name, value in zip(self.__members__, state, strict=True):
        object.__setattr__(self, name, value)


def _replaced(self: object, /, **changes: object) -> object:
    """The object with some of its members changed: what `replace` of the standard library does."""
    members: ClassMembers = self.__members__  # type: ignore[attr-defined]
    for name in changes:
        if name in members and not members[name].init:
            raise TypeError(f"{name} of {self.__class__.__name__} cannot be changed: it is not an argument")
    given = {name: getattr(self, name) for name, member in members.items() if member.init and name not in changes}
    return self.__class__(**given, **changes)


if TYPE_CHECKING:
    from dataclasses import dataclass, replace
else:
    dataclass, replace = quick_dataclass, _replaced
