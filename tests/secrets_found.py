"""Search for secrets in jobs' files: names, raw and encoded bytes, archives, values of Parquet files."""

import base64
import contextlib
import gzip
import html
import io
import os
import tarfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import quote, quote_plus

import pyarrow.parquet as pq
import pytest

from jobs.store.files import locations

ENVIRONMENT = {
    "HF_TOKEN": "hf_PlantedTokenOfTheHub",
    "RAY_AUTH_TOKEN": "PlantedTokenOfRay",
    "WANDB_API_KEY": "PlantedKeyOfATracker",
    "HTTPS_PROXY": "http://planted-user:PlantedProxyWord@127.0.0.1:9",
}
KEY_OF_S3 = "AWS_SECRET_ACCESS_KEY"
WITHOUT_A_SERVER = "PlantedSecretAccessKey"  # the key where a test uses no S3 server


@contextlib.contextmanager
def planting() -> Iterator[io.StringIO]:
    """Plant the secrets of `ENVIRONMENT` and a key of S3 while jobs run; what they print."""
    printed = io.StringIO()
    with (
        pytest.MonkeyPatch.context() as patch,
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(printed),
    ):
        for name, value in {KEY_OF_S3: _key_of_s3(), **ENVIRONMENT}.items():
            patch.setenv(name, value)
        yield printed


def _key_of_s3() -> str:
    return os.environ.get(KEY_OF_S3, WITHOUT_A_SERVER)


def leaks(folders: Iterable[str], printed: str, **more: str) -> list[str]:
    """Return where secrets occur below `folders` and in the output.

    They are what was planted, the secret key of the S3 server if there is one, and `more` by name.
    """
    secrets = ENVIRONMENT | {"HTTPS_PROXY": "PlantedProxyWord", KEY_OF_S3: _key_of_s3()} | more
    in_text = [f"{name} in what was printed" for name, secret in secrets.items() if secret in printed]
    return [leak for folder in folders for leak in find(folder, secrets)] + in_text


def find(folder: str, secrets: Mapping[str, str]) -> list[str]:
    """Return `name of the secret in uri` for each object below `folder`, a local folder or an S3 prefix."""
    forms = {name: _forms(secret) for name, secret in secrets.items()}
    return [
        f"{name} in {file.uri}"
        for file in locations.listing(folder)
        for name, needles in forms.items()
        if _contains(file.uri.encode() + b"\n" + _readable(locations.read_bytes(file.uri)), needles)
    ]


def _contains(content: bytes, needles: set[bytes]) -> bool:
    return any(needle in content for needle in needles)


def _forms(secret: str) -> set[bytes]:
    """Return the secret in plain text, encoded for URLs, HTML and JSON, and in base64 at each offset."""
    data = secret.encode()
    texts = {secret, quote(secret, safe=""), quote(secret), quote_plus(secret), html.escape(secret)}
    encoded = {_inner_base64(data, offset, altchars) for offset in range(3) for altchars in (b"+/", b"-_")}
    return {text.encode() for text in texts} | encoded


def _inner_base64(data: bytes, offset: int, altchars: bytes) -> bytes:
    """Return the part of the base64 of a text with `offset` bytes before `data` that depends on `data` alone."""
    first, last = -(-offset * 8 // 6), (offset + len(data)) * 8 // 6
    return base64.b64encode(bytes(offset) + data, altchars)[first:last]


def _readable(content: bytes) -> bytes:
    """`content`, and what it holds where it is compressed or an archive."""
    if content[:4] == b"PAR1":
        return content + repr(pq.read_table(io.BytesIO(content)).to_pydict()).encode()
    if content[:2] == b"\x1f\x8b":
        return content + _readable(gzip.decompress(content))
    if content[:4] == b"PK\x03\x04":
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            return content + b"".join(name.encode() + _readable(archive.read(name)) for name in archive.namelist())
    if content[257:262] == b"ustar":
        with tarfile.open(fileobj=io.BytesIO(content)) as archive:
            members = [(member.name, archive.extractfile(member)) for member in archive]
            return content + b"".join(name.encode() + _readable(file.read()) for name, file in members if file)
    return content
