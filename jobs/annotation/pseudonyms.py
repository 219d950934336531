"""Raters' names behind a keyed hash: the same key gives the same pseudonym, without it nobody can tell."""

import hashlib
import hmac
import os
from dataclasses import dataclass, field

from jobs.errors import InputError
from jobs.store import locations

KEY_VARIABLE = "REMINE_RATER_KEY"
MIN_KEY_BYTES = 16  # 128 bits; the names hidden are few, so that only the key protects them
PSEUDONYM_DIGITS = 24  # 96 bits: no two of 10^9 people share one
FINGERPRINT_DIGITS = 8  # tells a key from another one; too short to say anything of it


@dataclass
class Pseudonyms:
    """Gives pseudonyms; `key` is in no representation of this object."""

    key: bytes = field(repr=False)
    _known: dict[str, str] = field(default_factory=dict, repr=False)

    def __call__(self, name: str) -> str:
        """The pseudonym of `name`: `p-` and 24 hexadecimal digits of HMAC-SHA-256."""
        if name not in self._known:
            self._known[name] = "p-" + self._digest(f"rater:{name}")[:PSEUDONYM_DIGITS]
        return self._known[name]

    @property
    def fingerprint(self) -> str:
        """What a run's identity says of the key, so that two keys are not mixed in one place."""
        return self._digest("fingerprint")[:FINGERPRINT_DIGITS]

    def _digest(self, text: str) -> str:
        return hmac.new(self.key, text.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()


def read_key(key_file: str | None) -> Pseudonyms:
    """The pseudonyms under the key in `key_file`, or else in the environment variable REMINE_RATER_KEY.

    Raises:
        InputError: no key, or one that is too short; it is never shown.
    """
    if key_file:
        (file,) = locations.find(key_file)[:1]
        with locations.named_errors(key_file):
            key, where = locations.read_bytes(file.uri).strip(), f"key_file={key_file}"
    else:
        key, where = os.environ.get(KEY_VARIABLE, "").strip().encode("utf-8", "surrogateescape"), f"${KEY_VARIABLE}"
        if not key:
            raise InputError(f"anonymise=true needs a key: set ${KEY_VARIABLE} or give key_file=FILE")
    if len(key) < MIN_KEY_BYTES:
        raise InputError(f"{where}: the key has {len(key)} bytes, at least {MIN_KEY_BYTES} are needed")
    return Pseudonyms(key)
