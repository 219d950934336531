"""The claim of a place whose identity file is there, or was lost after the claim."""

import pytest

from jobs.errors import InputError
from jobs.store.files import locations
from jobs.store.run_files import IDENTITY, run_uri
from jobs.store.runs import claim, lease
from jobs.store.runs.claim import check_identity
from tests.jobs.store.small_runs import complete, plan


def test_without_the_identity_the_footers_decide(out: str) -> None:
    """The file may be lost after it was written and before it is read back."""
    planned, other = plan(out), plan(out, identity={"rules": {"x": 9}})
    complete(planned)
    locations.remove([run_uri(out, IDENTITY)])
    check_identity(out, planned)
    with pytest.raises(InputError, match=r"identity\.json is missing"):
        check_identity(out, other)


def test_another_list_of_exclusions_is_named_only_if_nothing_else_differs(out: str) -> None:
    complete(plan(out, identity={"x": 1, "exclusions": "a"}))
    with pytest.raises(InputError, match="exclusions= names another list"):
        check_identity(out, plan(out, identity={"x": 1, "exclusions": "b"}))
    with pytest.raises(InputError, match="also differing: x"):
        check_identity(out, plan(out, identity={"x": 2, "exclusions": "b"}))


def test_a_store_without_conditions_is_checked_again_and_warned_about_once(
    out: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The identity that was written may have replaced that of another run, whose objects are there."""
    complete(plan(out))
    locations.remove([run_uri(out, IDENTITY)])
    monkeypatch.setattr(locations, "creates_once", lambda _: False)
    monkeypatch.setattr(lease, "settle", lambda: None)
    with pytest.raises(InputError, match="the units were written with another configuration"):
        claim.claim(out, plan(out, identity={"rules": {"x": 9}}), ())
    monkeypatch.setattr(claim, "_warned", set())
    for place in ("s3://one/a", "s3://one/b", "s3://two/a"):
        claim.warn_of_store(place)
    assert [record.args for record in caplog.records] == [("s3://one/a",), ("s3://two/a",)]
    monkeypatch.setattr(locations, "creates_once", lambda _: True)
    claim.warn_of_store("s3://three/a")
    assert len(caplog.records) == 2
