"""Where secrets are found in what jobs wrote: names, raw bytes, and the values of Parquet files."""

import gzip
import io
from collections.abc import Mapping

import pyarrow.parquet as pq

from jobs.store import locations


def find(folder: str, secrets: Mapping[str, str]) -> list[str]:
    """Return `name of the secret in uri` for each object below `folder`, a local folder or an S3 prefix."""
    return [
        f"{name} in {file.uri}"
        for file in locations.listing(folder)
        for name, secret in secrets.items()
        if secret.encode() in file.uri.encode() + _readable(locations.read_bytes(file.uri))
    ]


def _readable(content: bytes) -> bytes:
    """`content`, and where it is compressed also what it holds."""
    if content[:4] == b"PAR1":
        return content + repr(pq.read_table(io.BytesIO(content)).to_pydict()).encode()
    if content[:2] == b"\x1f\x8b":
        return content + gzip.decompress(content)
    return content
