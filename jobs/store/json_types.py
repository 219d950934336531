"""Types of the JSON values that remine stores, and a check of values that were read back."""

import functools
import types
from typing import Any, TypedDict, Union, get_args, get_origin, get_type_hints, is_typeddict

REPLACED = "replaced"  # optional key of a `FooterJson`: a `ReplacedJson`
FOOTER_KEY = b"remine.unit"  # the key of the `FooterJson` in the metadata of a data object


class ObjectJson(TypedDict):
    """JSON form of `jobs.store.files.objects.Object`."""

    uri: str
    size: int
    etag: str


class UnitJson(TypedDict):
    """JSON form of `jobs.store.units.Unit`."""

    name: str
    inputs: list[ObjectJson]
    piece: str
    rows: int | None
    extra: dict[str, Any]


class FailureJson(TypedDict):
    """JSON form of `jobs.store.counts.Failure`."""

    rows: int
    where: str
    message: str


class CountsJson(TypedDict):
    """JSON form of `jobs.store.counts.Counts`."""

    rows_in: int
    rows_out: int
    filtered: dict[str, int]
    rejected: dict[str, int]
    status: dict[str, int]
    tallies: dict[str, dict[str, int]]
    failures: dict[str, FailureJson]


class GenerationJson(TypedDict):
    """One generation of a unit: the version of its inputs, its number, counts, start (Unix time) and duration."""

    version: str
    generation: int
    counts: CountsJson
    begun: float
    seconds: float


class FooterJson(GenerationJson):
    """The record in the footer of a data object: its unit, and the earlier generations that it replaced."""

    unit: UnitJson
    retired: list[GenerationJson]
    identity: str
    versions: dict[str, str]


class ReplacedJson(TypedDict):
    """The object that a purge replaced by this one, under the key `REPLACED` of a `FooterJson`."""

    purge: str
    size: int
    etag: str


class IndexHeadJson(TypedDict):
    """The first line of `_run/units.jsonl` (`jobs.store.unit_index`)."""

    units: int
    schemas: list[str]
    md5: str


class WrittenUnitJson(FooterJson):
    """A line of `_run/units.jsonl`: the record of a data object, its rows, size, ETag, and the index of its schema."""

    rows: int
    bytes: int
    etag: str
    schema: int


class ManifestJson(TypedDict):
    """The part of `_run/manifest.json` that programs read."""

    counts: CountsJson
    complete: bool


@functools.cache
def _keys(typed: type) -> tuple[tuple[str, Any], ...]:
    """Return the keys of a TypedDict with their types; cached, since this took half of the time of reading a footer."""
    return tuple(get_type_hints(typed).items())


def fits(value: object, expected: Any) -> bool:
    """Return whether `value`, as the json module returns it, has the type `expected`.

    Args:
        expected: a type, a union, `list[T]`, `dict[str, T]`, Any, or a TypedDict, whose keys are all required; other
            keys are allowed. A whole number fits float; True and False fit only bool.
    """
    if expected is Any:
        return True
    origin = get_origin(expected)
    if origin in (Union, types.UnionType):
        return any(fits(value, alternative) for alternative in get_args(expected))
    if origin is list:
        (kind,) = get_args(expected)
        return isinstance(value, list) and all(fits(element, kind) for element in value)
    if origin is dict:
        _, kind = get_args(expected)
        return isinstance(value, dict) and all(fits(element, kind) for element in value.values())
    if is_typeddict(expected):
        return isinstance(value, dict) and all(key in value and fits(value[key], hint) for key, hint in _keys(expected))
    return type(value) is expected or (expected is float and type(value) is int)
