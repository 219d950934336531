"""The hash of an identity is the same in each version and process; exclusions are not part of it."""

from typing import Any

from jobs.store.identity import flatten, identity_hash, stored_identity_hash
from jobs.store.runs.versions import PACKAGES, versions


def test_the_hash_is_frozen() -> None:
    """Frozen: another value would make every existing table one of another configuration."""
    assert identity_hash({"b": {"ü": 1.0, "n": None}, "a": ["x", True]}) == "b231fc986928c418b18154015f985c5a"


def test_the_order_of_keys_exclusions_and_the_name_of_the_table_do_not_matter() -> None:
    identity: dict[str, Any] = {"a": 1, "b": [2, 3]}
    same = identity_hash(identity)
    assert identity_hash({"b": [2, 3], "a": 1}) == identity_hash(identity | {"exclusions": "x"}) == same
    assert stored_identity_hash(identity | {"table": "images", "exclusions": "y"}) == same
    others: list[dict[str, Any]] = [
        identity | {"table": "images"},
        {"a": 1, "b": [3, 2]},
        {"a": "1", "b": [2, 3]},
        {"a": 1},
    ]
    assert same not in map(identity_hash, others)


def test_the_leaves_of_nested_values_have_dotted_keys() -> None:
    nested = {"a": {"b": {"c": 1}, "d": {}}, "e": [{"f": 2}], "g": None}
    assert flatten(nested) == {"a.b.c": 1, "a.d": {}, "e": [{"f": 2}], "g": None}
    assert flatten({}) == {"": {}}


def test_versions_are_of_the_code_python_and_what_is_installed() -> None:
    installed = versions()
    assert list(installed)[:2] == ["python", "code"]
    assert set(installed) <= {"python", "code", *PACKAGES}
    assert all(installed.values())
