"""Keys of pseudonyms: where they are read, and which are too short."""

from pathlib import Path

import pytest

from jobs.annotation.pseudonyms import (
    KEY_VARIABLE,
    MIN_KEY_BYTES,
    PSEUDONYM_DIGITS,
    Pseudonyms,
    PseudonymsOnDemand,
    read_key,
)
from jobs.errors import InputError

KEY = "k" * MIN_KEY_BYTES


def test_a_key_of_a_file_or_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "key").write_text(f" {KEY}\n")
    monkeypatch.setenv(KEY_VARIABLE, "another key of more than sixteen bytes")
    of_file, of_environment = read_key(str(tmp_path / "key")), read_key(None)
    assert of_file.key == KEY.encode()
    assert of_file("ada") == of_file("ada") != of_file("bo")
    assert len(of_file("ada")) == len("p-") + PSEUDONYM_DIGITS
    assert of_file("ada") != of_environment("ada")
    assert of_file.fingerprint != of_environment.fingerprint
    assert KEY not in repr(of_file)
    monkeypatch.setenv(KEY_VARIABLE, f" {KEY}\n")
    assert read_key(None).key == of_file.key
    for short in (KEY[:-1], ""):
        (tmp_path / "key").write_text(short)
        with pytest.raises(InputError, match=f"key_file=.*has {len(short)} bytes; must have at least 16"):
            read_key(str(tmp_path / "key"))


def test_a_key_is_asked_for_once_there_is_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(KEY_VARIABLE, raising=False)
    replace = PseudonymsOnDemand(None)
    with pytest.raises(InputError, match=f"secret key; set .{KEY_VARIABLE}"):
        replace("ada")
    monkeypatch.setenv(KEY_VARIABLE, KEY)
    assert replace("ada") == read_key(None)("ada")


def test_a_pseudonym_is_frozen() -> None:
    """Frozen: another value would make a person of earlier tables someone else."""
    pseudonyms = Pseudonyms(b"k" * 16)
    assert (pseudonyms("ada"), pseudonyms.fingerprint) == ("p-bfcca7e8b1e9e010d48ce652", "79a18da7")
