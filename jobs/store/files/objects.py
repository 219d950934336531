"""A file or an S3 object, as a listing describes it."""

from typing import NamedTuple


class Object(NamedTuple):
    """A file or S3 object.

    Attributes:
        uri: a local path or `s3://bucket/key`.
        size: bytes.
        etag: S3's ETag, or the size and modification time of a local file. It changes when the content is replaced.
    """

    uri: str
    size: int
    etag: str
