"""Whether JSON that was read back has the shape in which it was written."""

from typing import Any


def fits(value: Any, shape: Any) -> bool:
    """Whether `value`, as the json module reads it, has `shape`.

    Args:
        shape: a type, or a tuple of allowed types; `[s]`, a list of any length whose elements have shape `s`;
            `{str: s}`, an object whose values have shape `s`; any other dict, an object that has at least its keys,
            with values of these shapes.
    """
    if isinstance(shape, list):
        return isinstance(value, list) and all(fits(element, shape[0]) for element in value)
    if isinstance(shape, dict):
        if not isinstance(value, dict):
            return False
        if str in shape:
            return all(fits(inner, shape[str]) for inner in value.values())
        return all(key in value and fits(value[key], inner) for key, inner in shape.items())
    return type(value) in shape if isinstance(shape, tuple) else type(value) is shape  # True is no int here
