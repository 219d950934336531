"""One way to name a place: a local path or `s3://bucket/key`.

Bytes flow through pyarrow's filesystems: they are picklable, release the GIL and need no event loop on the
workers. s3fs is used on the driver for the two things pyarrow does not offer: listings with ETags (a frozen
input list must notice that an object was replaced) and conditional creation (`If-None-Match: *`, so that of
two drivers that start in the same place only one claims it). Both take credentials, region and endpoint from
the usual AWS chain; nothing here reads or stores a secret.
"""

import contextlib
import glob as local_glob
import os
import re
import socket
import tempfile
import time
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow.fs as pafs

from jobs.errors import InputError
from jobs.store.spool import Spool

S3_ATTEMPTS = 6  # one retry policy: SlowDown and dropped connections pass, a wrong name fails in seconds
S3_CONNECT_TIMEOUT_S = 5
S3_READ_TIMEOUT_S = 60
S3_DELETE_AT_ONCE = 1000  # the protocol's limit
REACH_ATTEMPTS = 3  # a configured endpoint that nobody listens at is told in seconds, not after all retries
CLAIM_ATTEMPTS = 5


@dataclass(frozen=True)
class Object:
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
def named_errors(uri: str) -> Any:
    """Turn what a filesystem raises about `uri` into one sentence that names it."""
    import botocore.exceptions as boto

    try:
        yield
    except InputError:
        raise
    except FileNotFoundError as error:
        what = f"bucket {_bucket(uri)!r} or the key does not exist" if is_s3(uri) else "does not exist"
        raise InputError(f"{uri}: {what}") from error
    except (NotADirectoryError, FileExistsError) as error:
        raise InputError(f"{uri}: a file stands where a folder is needed") from error
    except PermissionError as error:
        raise InputError(f"{uri}: access denied ({_first_line(error)})") from error
    except boto.NoCredentialsError as error:
        raise InputError(f"{uri}: no AWS credentials in the environment, profile or instance role") from error
    except (boto.EndpointConnectionError, boto.ConnectTimeoutError, boto.ConnectionClosedError) as error:
        raise InputError(f"{uri}: the storage endpoint cannot be reached ({_first_line(error)})") from error
    except (boto.BotoCoreError, boto.ClientError, OSError) as error:
        raise InputError(f"{uri}: {_first_line(error)}") from error


def _bucket(uri: str) -> str:
    return uri.removeprefix("s3://").split("/", 1)[0]


def _first_line(error: BaseException) -> str:
    lines = (str(error).strip() or type(error).__name__).splitlines()
    return " ".join(lines[:2]) if lines[0].endswith(":") else lines[0]


def find(pattern: str, *, strict: bool = True) -> list[Object]:
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
        found = _find_s3(pattern) if is_s3(pattern) else _find_local(pattern, strict=strict)
    if not found:
        raise InputError(f"{pattern}: no file matches")
    return sorted(found, key=lambda o: o.uri)


def listing(folder: str) -> list[Object]:
    """Everything below `folder`, sorted; empty if there is nothing. Raises InputError as `find` does."""
    folder = absolute(folder)
    with named_errors(folder):
        if not is_s3(folder):
            return sorted(_find_local(folder), key=lambda o: o.uri) if Path(folder).exists() else []
        try:
            return sorted(_below_s3(folder), key=lambda o: o.uri)
        except FileNotFoundError:
            if _bucket_exists(folder):
                return []
            raise


def _bucket_exists(uri: str) -> bool:
    import botocore.exceptions as boto

    try:
        _s3fs().call_s3("head_bucket", Bucket=_bucket(uri))
    except (boto.ClientError, FileNotFoundError):
        return False
    return True


def _find_s3(pattern: str) -> list[Object]:
    if not local_glob.has_magic(pattern):
        return _below_s3(pattern)
    if literal := _below_s3(pattern):  # a key may hold `?`, `*` or `[`; what is there under that very name wins
        return literal
    return _objects_s3(_s3fs().glob(pattern.removeprefix("s3://"), detail=True))


def _below_s3(uri: str) -> list[Object]:
    details = _s3fs().find(uri.removeprefix("s3://"), detail=True)
    if not details and not _bucket_exists(uri):
        raise FileNotFoundError(uri)
    return _objects_s3(details)


def _objects_s3(details: dict[str, dict[str, Any]]) -> list[Object]:
    return [
        Object(f"s3://{name}", int(info["size"]), str(info.get("ETag", "")).strip('"'))
        for name, info in details.items()
        if info["type"] == "file"
    ]


def _find_local(pattern: str, *, strict: bool = True) -> list[Object]:
    path = Path(pattern)
    if path.is_file():
        names = [path]
    elif path.is_dir():
        names = [p for p in path.rglob("*") if p.is_file()]
    elif local_glob.has_magic(pattern):
        names = [p for p in map(Path, local_glob.glob(pattern, recursive=True)) if p.is_file()]
    else:
        raise FileNotFoundError(pattern)
    return [_local_object(p, strict=strict) for p in names]


def _local_object(path: Path, *, strict: bool) -> Object:
    stat, name = path.stat(), str(path).encode("utf-8", "backslashreplace").decode()
    if strict and not os.access(path, os.R_OK):
        raise PermissionError(f"{name} is not readable")
    if strict and name != str(path):
        raise OSError(f"{name} has a name that is not UTF-8")
    return Object(name, stat.st_size, f"{stat.st_size:x}-{stat.st_mtime_ns:x}")


def exists(uri: str) -> bool:
    """Whether a file or an object is at `uri`. Raises InputError where that cannot be told."""
    with named_errors(uri):
        return bool(_s3fs().exists(uri.removeprefix("s3://"))) if is_s3(uri) else Path(uri).is_file()


def read_bytes(uri: str) -> bytes:
    """The whole object, as it is: pyarrow would unpack a .gz by its name. FileNotFoundError if there is none."""
    fs, path = filesystem(uri)
    with fs.open_input_stream(path, compression=None) as stream:
        data: bytes = stream.readall()
    return data


def create(uri: str, data: bytes) -> bool:
    """Create `uri` only if nothing is there; of several who try at once one gets True.

    On a store that ignores `If-None-Match` the last writer wins; callers compare what they read back.
    """
    if is_s3(uri):
        return _create_s3(uri, data)
    target = Path(uri)
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=target.parent, prefix=".", suffix=".tmp", delete=False) as aside:
        aside.write(data)
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


def replace(uri: str, data: bytes) -> None:
    """Write `uri` whole, replacing what was there."""
    with Spool("whole") as aside:
        whole = aside.path / "whole"
        whole.write_bytes(data)
        publish(whole, uri)


def publish(source: Path, uri: str) -> None:
    """Make the finished local file `source` appear at `uri` in one step.

    Locally: a copy beside the target, then a rename. On S3: one PUT or a multipart upload, completed only
    after every byte was sent. The source is complete before the upload begins because pyarrow completes,
    rather than aborts, an upload whose stream is closed by an exception.
    """
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
        except OSError as error:
            error.filename = error.filename or str(target)  # a full disk does not say where
            raise
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
        for first in range(0, len(uris), S3_DELETE_AT_ONCE):
            _remove_s3(uris[first : first + S3_DELETE_AT_ONCE])
        return
    for uri in uris:
        Path(uri).unlink(missing_ok=True)


def _remove_s3(uris: list[str]) -> None:
    # Not s3fs's rm: it takes `?`, `*` and `[` in a key for a pattern, and tells nothing of what it could not delete.
    keys = [uri.removeprefix("s3://").split("/", 1)[1] for uri in uris]
    answer = _s3fs().call_s3(
        "delete_objects", Bucket=_bucket(uris[0]), Delete={"Objects": [{"Key": key} for key in keys], "Quiet": True}
    )
    if failed := answer.get("Errors"):
        raise OSError(f"s3://{_bucket(uris[0])}/{failed[0].get('Key')} was not deleted ({failed[0].get('Message')})")
