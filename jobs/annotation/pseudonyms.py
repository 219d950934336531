"""Pseudonyms of raters from a keyed hash: one key always gives the same pseudonyms, and only the key reveals names."""

import hashlib
import hmac
import os
from dataclasses import dataclass, field

from jobs.errors import InputError
from jobs.store.files import locations

KEY_VARIABLE = "REMINE_RATER_KEY"
MIN_KEY_BYTES = 16  # 128 bits; names are few and can be guessed, so only the key protects them
PSEUDONYM_DIGITS = 24  # 96 bits: enough for 10^9 people
MAKES_A_KEY = "openssl rand -hex 16 > key.txt makes such a file; keep it"
FINGERPRINT_DIGITS = 8  # identifies a key; too short to reveal it


@dataclass
class Pseudonyms:
    """Function that returns pseudonyms; its representation does not contain the key."""

    key: bytes = field(repr=False)
    _cache: dict[str, str] = field(default_factory=dict, repr=False)

    def __call__(self, name: str) -> str:
        """Return the pseudonym of `name`: `p-` and 24 hexadecimal digits of HMAC-SHA-256."""
        if name not in self._cache:
            self._cache[name] = "p-" + self._digest(f"rater:{name}")[:PSEUDONYM_DIGITS]
        return self._cache[name]

    @property
    def fingerprint(self) -> str:
        """The key's identifier in a run's identity, so that a table never mixes pseudonyms under two keys."""
        return self._digest("fingerprint")[:FINGERPRINT_DIGITS]

    def _digest(self, text: str) -> str:
        return hmac.new(self.key, text.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()


def read_key(key_file: str | None) -> Pseudonyms:
    """Return pseudonyms under the key in `key_file`, else in the environment variable REMINE_RATER_KEY.

    Raises:
        InputError: there is no key, or it is too short; the message does not contain it.
    """
    if key_file:
        try:
            (file,) = locations.find(key_file)[:1]
        except InputError as error:
            raise InputError(error.why, key="key_file", value=key_file, remedy=MAKES_A_KEY) from error
        with locations.named_errors(key_file):
            key, where = locations.read_bytes(file.uri).strip(), f"key_file={key_file}"
    else:
        key, where = os.environ.get(KEY_VARIABLE, "").strip().encode("utf-8", "surrogateescape"), f"${KEY_VARIABLE}"
        if not key:
            raise InputError(
                "people's names are replaced by pseudonyms under a secret key; "
                f"set ${KEY_VARIABLE} or give key_file=key.txt",
                key="key_file",
                remedy=MAKES_A_KEY,
            )
    if len(key) < MIN_KEY_BYTES:
        raise InputError(f"{where}: the key has {len(key)} bytes; must have at least {MIN_KEY_BYTES}")
    return Pseudonyms(key)


class PseudonymsOnDemand:
    """Function that replaces people's names and requires the key only if there is a name to replace."""

    def __init__(self, key_file: str | None) -> None:
        self._key_file = key_file
        self._pseudonyms: Pseudonyms | None = None

    def __call__(self, name: str) -> str:
        """Return the pseudonym of a person.

        Raises:
            InputError: the key is missing.
        """
        self._pseudonyms = self._pseudonyms or read_key(self._key_file)
        return self._pseudonyms(name)
