"""One way to name a place: a local path or `s3://bucket/key`.

Bytes flow through pyarrow's filesystems: they are picklable, release the GIL and need no event loop on the
workers. s3fs is used on the driver for the two things pyarrow does not offer: listings with ETags (a frozen
input list must notice that an object was replaced) and conditional creation (`If-None-Match: *`, so that of
two drivers that start in the same place only one claims it). Both take credentials, region and endpoint from
the usual AWS chain; nothing here reads or stores a secret.
"""

import contextlib
import errno
import glob as local_glob
import os
import re
import socket
import stat
import tempfile
import time
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pyarrow.fs as pafs

from jobs.errors import InputError
from jobs.store import faults
from jobs.store.compact_list import CompactList
from jobs.store.spool import Spool

S3_ATTEMPTS = 6  # one retry policy: SlowDown and dropped connections pass, a wrong name fails in seconds
S3_CONNECT_TIMEOUT_S = 5
S3_READ_TIMEOUT_S = 60
S3_AT_ONCE = 1000  # the protocol's limit of objects to a listing's page, and to a deletion
REACH_ATTEMPTS = 3  # a configured endpoint that nobody listens at is told in seconds, not after all retries
CLAIM_ATTEMPTS = 5
_NO_FILE = (errno.ENOENT, errno.ENOTDIR, errno.EBADF, errno.ELOOP)  # what a dangling link, or one to itself, gives


class Object(NamedTuple):
    """A file or object as listed: `uri`, bytes, and `etag` (S3's, or size and modification time locally)."""

    uri: str
    size: int
    etag: str


def is_s3(uri: str) -> bool:
    """Whether `uri` names something on object storage."""
    return uri.startswith("s3://")


def join(uri: str, *parts: str) -> str:
    """`uri` with `parts` below it."""
    return "/".join([uri.rstrip("/"), *parts])


def absolute(uri: str) -> str:
    """A local path made absolute, so that a worker with another working directory finds it; S3 unchanged.

    Doubled slashes of an S3 uri become one (`R/` + `/matches`): pyarrow takes no empty part of a key.

    Raises:
        InputError: empty, another scheme than s3, or no bucket.
    """
    if not uri.strip():
        raise InputError("a path is empty; places are local paths or s3://bucket/key")
    if is_s3(uri):
        uri = "s3://" + re.sub("/{2,}", "/", uri.removeprefix("s3://"))
        bucket = uri.removeprefix("s3://").split("/", 1)[0]
        if not bucket:
            raise InputError(f"{uri!r} names no bucket")
        return uri.rstrip("/")
    if "://" in uri:
        raise InputError(f"{uri!r}: places are local paths or s3://bucket/key")
    return os.path.abspath(Path(uri).expanduser())  # noqa: PTH100 (folds "..", follows no link)


def filesystem(uri: str) -> tuple[pafs.FileSystem, str]:
    """pyarrow's filesystem for `uri` and the path inside it."""
    if is_s3(uri):
        return _arrow_s3(), uri.removeprefix("s3://")
    return pafs.LocalFileSystem(), uri


@lru_cache(maxsize=1)
def _aws_settings() -> dict[str, str]:
    """Region and endpoint as botocore resolves them (environment, then profile)."""
    import botocore.session

    session = botocore.session.Session()
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    endpoint = endpoint or session.get_scoped_config().get("endpoint_url")
    region = session.get_config_variable("region")
    return {"endpoint": endpoint or "", "region": region or ""}


def forget_settings() -> None:
    """Look at the environment and profile again: they changed in this process."""
    import s3fs

    _aws_settings.cache_clear()
    _check_reachable.cache_clear()
    s3fs.S3FileSystem.clear_instance_cache()  # it keeps the credentials it was made with


def _arrow_s3() -> pafs.S3FileSystem:
    settings = _aws_settings()
    options: dict[str, Any] = {"connect_timeout": S3_CONNECT_TIMEOUT_S, "request_timeout": S3_READ_TIMEOUT_S}
    if settings["region"]:
        options["region"] = settings["region"]
    if settings["endpoint"]:
        options["scheme"], _, options["endpoint_override"] = settings["endpoint"].rstrip("/").partition("://")
    return pafs.S3FileSystem(retry_strategy=pafs.AwsStandardS3RetryStrategy(max_attempts=S3_ATTEMPTS), **options)


def _s3fs() -> Any:
    import s3fs

    settings = _aws_settings()
    if settings["endpoint"]:
        _check_reachable(settings["endpoint"])
    client = {"region_name": settings["region"]} if settings["region"] else {}
    return s3fs.S3FileSystem(
        endpoint_url=settings["endpoint"] or None,
        client_kwargs=client,
        use_listings_cache=False,
        config_kwargs={
            "retries": {"max_attempts": S3_ATTEMPTS, "mode": "standard"},
            "connect_timeout": S3_CONNECT_TIMEOUT_S,
            "read_timeout": S3_READ_TIMEOUT_S,
        },
    )


@lru_cache(maxsize=4)
def _check_reachable(endpoint: str) -> None:
    import botocore.exceptions as boto

    parts = urlsplit(endpoint)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    if not parts.hostname or any(os.environ.get(name) for name in ("HTTP_PROXY", "HTTPS_PROXY", "https_proxy")):
        return  # behind a proxy, only the real request tells
    for attempt in range(1, REACH_ATTEMPTS + 1):
        try:
            socket.create_connection((parts.hostname, port), timeout=S3_CONNECT_TIMEOUT_S).close()
            return
        except OSError as error:
            if attempt == REACH_ATTEMPTS:
                raise boto.EndpointConnectionError(endpoint_url=endpoint) from error
            time.sleep(attempt * 0.5)


@contextlib.contextmanager
def named_errors(uri: str) -> Iterator[None]:
    """Raise an InputError that names `uri`, the cause and the remedy for what a filesystem raises about it."""
    try:
        yield
    except Exception as error:
        if (told := faults.sentence(error, uri)) is None:
            raise
        raise InputError(told) from error


def _bucket(uri: str) -> str:
    return uri.removeprefix("s3://").split("/", 1)[0]


def find(pattern: str, *, strict: bool = True) -> CompactList[Object]:
    """The files that `pattern` names: a file, a glob, or a folder (everything below it), sorted by uri.

    Links to files are followed, links to folders below the folder are not; pipes and dangling links are no files.

    Args:
        strict: refuse files that cannot be read, and names that are not UTF-8. Otherwise they are listed too, for a
            reader that says so of each; bytes of a name that are not UTF-8 are written `\\udcXX`.

    Raises:
        InputError: nothing there, no access, or no such bucket; the sentence names `pattern`.
    """
    pattern = absolute(pattern)
    with named_errors(pattern):
        found = _in_order(_find_s3(pattern)) if is_s3(pattern) else CompactList(_find_local(pattern, strict=strict))
    if not found:
        raise InputError(f"{pattern}: no file matches")
    return found


def listing(folder: str) -> CompactList[Object]:
    """Everything below `folder`, sorted; empty if there is nothing. Raises InputError as `find` does."""
    folder = absolute(folder)
    with named_errors(folder):
        if not is_s3(folder):
            return CompactList(_find_local(folder, strict=True) if Path(folder).exists() else ())
        try:
            return _in_order(_below_s3(folder))
        except FileNotFoundError:
            if _bucket_exists(folder):
                return CompactList()
            raise


def _in_order(listed: Iterable[Object]) -> CompactList[Object]:
    """What is `listed`, sorted: AWS lists so, SeaweedFS a folder at a time."""
    packed = CompactList(listed)
    if all(one.uri <= other.uri for one, other in pairwise(packed)):
        return packed
    return CompactList(sorted(packed))


def _bucket_exists(uri: str) -> bool:
    import botocore.exceptions as boto

    try:
        _s3fs().call_s3("head_bucket", Bucket=_bucket(uri))
    except (boto.ClientError, FileNotFoundError):
        return False
    return True


def _find_s3(pattern: str) -> Iterator[Object]:
    literal = True
    if local_glob.has_magic(pattern):
        # A key may hold `?`, `*` or `[`; what is there under that very name wins.
        literal = next(_below_s3(pattern), None) is not None
    if literal:
        yield from _below_s3(pattern)
        return
    found = _s3fs().glob(pattern.removeprefix("s3://"), detail=True)
    for name in found:
        if found[name]["type"] == "file":
            yield _object_s3(name, found[name]["size"], found[name].get("ETag"))


def _below_s3(uri: str) -> Iterator[Object]:
    """The object `uri` or those below it, a page of the listing at a time.

    Not s3fs's `find`, which holds the whole listing, a kilobyte and more an object.
    """
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    asked: dict[str, Any] = {"Bucket": bucket, "Prefix": f"{key}/" if key else "", "MaxKeys": S3_AT_ONCE}
    none = True
    while asked:
        page = _s3fs().call_s3("list_objects_v2", **asked)
        for entry in page.get("Contents", ()):
            if entry["Key"].endswith("/"):
                continue  # a console's "Create folder" leaves an empty object of this name
            none = False
            yield _object_s3(f"{bucket}/{entry['Key']}", entry["Size"], entry.get("ETag"))
        asked = {**asked, "ContinuationToken": page["NextContinuationToken"]} if page.get("IsTruncated") else {}
    if not none:
        return
    with contextlib.suppress(FileNotFoundError):
        info = _s3fs().info(f"{bucket}/{key}")
        if info["type"] == "file":
            yield _object_s3(info["name"], info["size"], info.get("ETag"))
        return
    if not _bucket_exists(uri):
        raise FileNotFoundError(uri)


def _object_s3(name: str, size: int, etag: str | None) -> Object:
    return Object(f"s3://{name}", int(size), str(etag or "").strip('"'))


def _find_local(pattern: str, *, strict: bool) -> Iterator[Object]:
    path = Path(pattern)
    if path.is_file():
        names: Iterable[str] = [pattern]
    elif path.is_dir():
        names = _below_local(pattern.rstrip("/"))
    elif local_glob.has_magic(pattern):
        names = sorted(local_glob.glob(pattern, recursive=True), key=_shown)
    else:
        raise FileNotFoundError(pattern)
    for name in names:
        if (found := _local_object(name, strict=strict)) is not None:
            yield found


def _below_local(folder: str) -> Iterator[str]:
    """The paths of all that is no folder below `folder`, in order of how they are shown."""
    try:
        with os.scandir(folder or "/") as entries:
            # With their slash, folders stand among the files where what is below them belongs.
            names = [f"{e.name}/" if e.is_dir(follow_symlinks=False) else e.name for e in entries]
    except PermissionError:
        return
    for name in sorted(names, key=_shown):
        path = f"{folder}/{name}"
        if name.endswith("/"):
            yield from _below_local(path[:-1])
        else:
            yield path


def _shown(path: str) -> str:
    """`path`, its bytes that are not UTF-8 written `\\udcXX`."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return path.encode("utf-8", "backslashreplace").decode()
    return path


def _local_object(path: str, *, strict: bool) -> Object | None:
    """The file at `path`; None for a folder, a pipe or a dangling link."""
    try:
        found = os.stat(path)  # noqa: PTH116 (a Path of each of ten thousand names would stay in memory)
    except OSError as error:
        if error.errno in _NO_FILE:
            return None
        raise
    if not stat.S_ISREG(found.st_mode):
        return None
    name = _shown(path)
    if strict and not os.access(path, os.R_OK):
        raise PermissionError(f"{name} is not readable")
    if strict and name != path:
        raise OSError(f"{name} has a name that is not UTF-8")
    return Object(name, found.st_size, f"{found.st_size:x}-{found.st_mtime_ns:x}")


def exists(uri: str) -> bool:
    """Whether a file or an object is at `uri`. Raises InputError where that cannot be told."""
    with named_errors(uri):
        return bool(_s3fs().exists(uri.removeprefix("s3://"))) if is_s3(uri) else Path(uri).is_file()


def read_bytes(uri: str) -> bytes:
    """The whole object, as it is: pyarrow would unpack a .gz by its name. FileNotFoundError if there is none."""
    fs, path = filesystem(uri)
    with faults.at(uri), fs.open_input_stream(path, compression=None) as stream:
        data: bytes = stream.readall()
    return data


def create(uri: str, data: bytes | Iterable[bytes]) -> bool:
    """Create `uri`, of bytes or pieces of them, only if nothing is there; of several who try at once one gets True.

    On a store that ignores `If-None-Match` the last writer wins; callers compare what they read back.
    """
    with faults.at(uri):
        return _create_s3(uri, b"".join(_pieces(data))) if is_s3(uri) else _create_local(Path(uri), data)


def _create_local(target: Path, data: bytes | Iterable[bytes]) -> bool:
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=target.parent, prefix=".", suffix=".tmp", delete=False) as aside:
        aside.writelines(_pieces(data))
    try:
        os.link(aside.name, target)  # fails if the target exists, and is never seen half-written
    except FileExistsError:
        return False
    finally:
        Path(aside.name).unlink()
    return True


def _create_s3(uri: str, data: bytes) -> bool:
    for attempt in range(1, CLAIM_ATTEMPTS + 1):
        try:
            _s3fs().pipe_file(uri.removeprefix("s3://"), data, mode="create")
            return True
        except FileExistsError:
            return False
        except OSError as error:
            # s3fs translates the refusal of a condition into a plain OSError; the answer is in its cause.
            answer = getattr(error.__cause__, "response", {})
            status = answer.get("ResponseMetadata", {}).get("HTTPStatusCode")
            if status == 412:
                return False
            if status != 409 or attempt == CLAIM_ATTEMPTS:  # 409: another one is writing it at this moment
                raise
        time.sleep(attempt * 0.1)
    raise AssertionError("unreachable")


def replace(uri: str, data: bytes | Iterable[bytes]) -> None:
    """Write `uri` whole, of bytes or pieces of them, replacing what was there."""
    with Spool("whole") as aside:
        whole = aside.path / "whole"
        with whole.open("wb") as file:
            file.writelines(_pieces(data))
        publish(whole, uri)


def _pieces(data: bytes | Iterable[bytes]) -> Iterable[bytes]:
    return [data] if isinstance(data, bytes) else data


def publish(source: Path, uri: str) -> None:
    """Make the finished local file `source` appear at `uri` in one step.

    Locally: a copy beside the target, then a rename. On S3: one PUT or a multipart upload, completed only
    after every byte was sent. The source is complete before the upload begins because pyarrow completes,
    rather than aborts, an upload whose stream is closed by an exception.
    """
    with faults.at(uri):
        _publish(source, uri)


def _publish(source: Path, uri: str) -> None:
    fs, path = filesystem(uri)
    if isinstance(fs, pafs.LocalFileSystem):
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        aside = target.parent / f".{target.name}.{os.getpid()}.tmp"
        try:
            with source.open("rb") as reader, aside.open("wb") as writer:
                while chunk := reader.read(1 << 20):
                    writer.write(chunk)
                writer.flush()
                os.fsync(writer.fileno())
            aside.replace(target)
        finally:
            aside.unlink(missing_ok=True)
        return
    with source.open("rb") as reader, fs.open_output_stream(path, compression=None) as stream:
        while chunk := reader.read(8 << 20):
            stream.write(chunk)


def remove(uris: list[str]) -> None:
    """Delete objects, those that are gone already included."""
    if not uris:
        return
    if is_s3(uris[0]):
        for first in range(0, len(uris), S3_AT_ONCE):
            _remove_s3(uris[first : first + S3_AT_ONCE])
        return
    for uri in uris:
        with faults.at(uri):
            Path(uri).unlink(missing_ok=True)


def _remove_s3(uris: list[str]) -> None:
    # Not s3fs's rm: it takes `?`, `*` and `[` in a key for a pattern, and tells nothing of what it could not delete.
    keys = [uri.removeprefix("s3://").split("/", 1)[1] for uri in uris]
    objects = {"Objects": [{"Key": key} for key in keys], "Quiet": True}
    with faults.at(uris[0]):
        try:
            answer = _s3fs().call_s3("delete_objects", Bucket=_bucket(uris[0]), Delete=objects)
        except OSError as error:
            if "MissingContentMD5" not in str(error):
                raise
            answer = _remove_one_by_one(_bucket(uris[0]), keys)
    if failed := answer.get("Errors"):
        raise OSError(f"s3://{_bucket(uris[0])}/{failed[0].get('Key')} was not deleted ({failed[0].get('Message')})")


def _remove_one_by_one(bucket: str, keys: list[str]) -> dict[str, Any]:
    """For older stores, which want an MD5 sum of a request for several deletions that botocore no longer sends."""
    for key in keys:
        with faults.at(f"s3://{bucket}/{key}"):
            _s3fs().call_s3("delete_object", Bucket=bucket, Key=key)
    return {}
