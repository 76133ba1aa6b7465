"""What may stand in a file that is read back: JSON checked against one schema at the door.

>>> person = record({"name": TEXT, "age": whole(0, 150)})
>>> check({"name": "Ada", "age": "36"}, person, "people.json")
Traceback (most recent call last):
tell.schema.MisfitError: people.json: 'age' must be a whole number from 0 to 150, got '36'
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

# Finds every misfit of a value at a place as (place, rule, value).
_Search = Callable[[str, Any], Iterator[tuple[str, str, Any]]]


class MisfitError(ValueError):
    """A value that its schema does not allow."""


@dataclass(frozen=True)
class Rule:
    """What a value must be: `says` in words, `misfits` finds what is not so."""

    says: str
    misfits: _Search


def check(value: Any, rule: Rule, where: str) -> None:
    """Raise a `MisfitError` that names the first part of `value` that breaks the rule."""
    for place, says, found in rule.misfits("", value):
        shown = repr(found)
        shown = shown if len(shown) <= 60 else f"{shown[:57]}…"
        name = f"{place!r}" if place else "it"
        raise MisfitError(f"{where}: {name} must be {says}, got {shown}")


def rule(says: str, fits: Callable[[Any], bool]) -> Rule:
    """A rule for a single value."""

    def misfits(place: str, value: Any) -> Iterator[tuple[str, str, Any]]:
        if not fits(value):
            yield place, says, value

    return Rule(says, misfits)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


TEXT = rule("a text", lambda value: isinstance(value, str))
TRUTH = rule("true or false", lambda value: isinstance(value, bool))
NUMBER = rule("a number", _is_number)
OBJECT = rule("an object", lambda value: isinstance(value, dict))
ANYTHING = rule("anything", lambda value: True)
_ABSENT = rule("absent", lambda value: False)


def number(low: float = -math.inf, high: float = math.inf) -> Rule:
    """A number within bounds; NaN is none."""
    return rule(
        f"a number from {low:g} to {high:g}", lambda v: _is_number(v) and bool(low <= v <= high)
    )


def whole(low: int, high: int) -> Rule:
    """A whole number within bounds."""
    return rule(f"a whole number from {low} to {high}", lambda v: _is_whole(v) and low <= v <= high)


def one_of(*values: Any) -> Rule:
    """One of these texts."""
    return rule(f"one of {', '.join(map(repr, values))}", lambda value: value in values)


def optional(inner: Rule) -> Rule:
    """Null, or what the rule says."""
    return either(rule("null", lambda value: value is None), inner)


def either(first: Rule, second: Rule) -> Rule:
    """What one of two rules allows; what is wrong is told by the second."""

    def misfits(place: str, value: Any) -> Iterator[tuple[str, str, Any]]:
        if next(first.misfits(place, value), None) is not None:
            yield from second.misfits(place, value)

    return Rule(f"{second.says} or {first.says}", misfits)


def list_of(inner: Rule, longest: int | None = None) -> Rule:
    """A list whose items all follow the rule."""
    says = "a list" if longest is None else f"a list of at most {longest} items"

    def misfits(place: str, value: Any) -> Iterator[tuple[str, str, Any]]:
        if not isinstance(value, list) or (longest is not None and len(value) > longest):
            yield place, says, value
            return
        for number, item in enumerate(value):
            yield from inner.misfits(f"{place}[{number}]", item)

    return Rule(says, misfits)


def mapping_of(inner: Rule) -> Rule:
    """An object with any keys whose values all follow the rule."""

    def misfits(place: str, value: Any) -> Iterator[tuple[str, str, Any]]:
        if not isinstance(value, dict):
            yield place, "an object", value
            return
        for key, item in value.items():
            yield from inner.misfits(_join(place, key), item)

    return Rule("an object", misfits)


def record(
    parts: Mapping[str, Rule], *, may_lack: Collection[str] = (), others: Rule | None = None
) -> Rule:
    """An object with these keys; with `others` it may have further ones, which follow that rule."""

    def misfits(place: str, value: Any) -> Iterator[tuple[str, str, Any]]:
        if not isinstance(value, dict):
            yield place, "an object", value
            return
        for key, inner in parts.items():
            if key in value:
                yield from inner.misfits(_join(place, key), value[key])
            elif key not in may_lack:
                yield _join(place, key), inner.says, "nothing"
        for key in value.keys() - parts.keys():
            yield from (others or _ABSENT).misfits(_join(place, key), value[key])

    return Rule("an object", misfits)


def _join(place: str, key: str) -> str:
    return f"{place}.{key}" if place else key
