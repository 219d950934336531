"""S3 through pyarrow and s3fs.

Bytes go through pyarrow's filesystem: it is picklable, releases the GIL and needs no event loop on the workers. s3fs
provides what pyarrow lacks: listings with ETags, which let a resumed run notice a replaced input, and conditional
creation (`If-None-Match: *`), which lets only one of two drivers claim a table. Both take credentials, region and
endpoint from the usual AWS chain; this module neither reads nor stores secrets.
"""

import contextlib
import glob
import os
import secrets
import socket
import time
import urllib.request
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.fs as pafs

from actors.fetching.signed_urls import without_secrets
from jobs.errors import InputError, at
from jobs.store.files.objects import Object

ATTEMPTS = 6  # attempts per request: SlowDown and dropped connections pass, a wrong name fails within seconds
ARROW_ATTEMPTS = 10  # attempts of pyarrow, whose pauses begin with 50 ms and double: 25 s in all
CONNECT_TIMEOUT_S = 5
READ_TIMEOUT_S = 60
KEYS_PER_REQUEST = 1000  # the protocol's limit for a page of a listing and for a deletion
REACH_ATTEMPTS = 3  # attempts to connect to a configured endpoint; if nothing listens there, they fail within seconds
REACH_PAUSE_S = 0.5  # after the first attempt; proportionally longer after the next ones
CREATE_ATTEMPTS = 5
CONNECTIONS = 64  # simultaneous connections of a process


def key_path(uri: str) -> str:
    """Return `bucket/key` of `s3://bucket/key`, as pyarrow and s3fs name objects."""
    return uri.removeprefix("s3://")


def bucket_of(uri: str) -> str:
    """Return the bucket of an S3 uri."""
    return key_path(uri).split("/", 1)[0]


@lru_cache(maxsize=1)
def settings() -> dict[str, str]:
    """Return `region`, `endpoint` and `ca_bundle` as botocore resolves them (environment, profile); empty if unset.

    Raises:
        InputError: the endpoint is not an address.
    """
    import botocore.session

    session = botocore.session.Session()
    configured = {name: os.environ.get(name) for name in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")}
    configured["endpoint_url in the profile"] = session.get_scoped_config().get("endpoint_url")
    name, endpoint = next(((name, value) for name, value in configured.items() if value), ("", ""))
    if endpoint and not _is_address(endpoint):
        raise InputError("must be an address such as https://host:port", key=name, value=without_secrets(endpoint))
    region = session.get_config_variable("region")
    ca_bundle = session.get_config_variable("ca_bundle")
    return {"endpoint": endpoint or "", "region": region or "", "ca_bundle": ca_bundle or ""}


def _is_address(endpoint: str) -> bool:
    try:
        parts = urlsplit(endpoint)
        is_port = parts.port is None or parts.port > 0
    except ValueError:  # a port that is not a number, an unclosed [
        return False
    is_host = bool(parts.hostname) and not any(sign.isspace() or sign in '[]"<>' for sign in parts.hostname or "")
    return parts.scheme in ("http", "https") and is_host and is_port


def forget_settings() -> None:
    """Forget the cached settings, after the environment or profile changed in this process."""
    import s3fs

    settings.cache_clear()
    arrow_filesystem.cache_clear()
    _creates_once.clear()
    _check_reachable.cache_clear()
    s3fs.S3FileSystem.clear_instance_cache()  # instances keep their credentials


@lru_cache(maxsize=1)
def arrow_filesystem() -> pafs.S3FileSystem:
    """Return pyarrow's filesystem, for bytes; one per process.

    Each new one resolves the credentials again, by a request to the machine's metadata service, and opens new
    connections. pyarrow keeps as many connections as it has threads for input, but at least 25.
    """
    pa.set_io_thread_count(max(CONNECTIONS, pa.io_thread_count()))
    configured = settings()
    options: dict[str, Any] = {
        "connect_timeout": CONNECT_TIMEOUT_S,
        "request_timeout": READ_TIMEOUT_S,
        "allow_delayed_open": True,  # a small object is one PUT instead of the three requests of a multipart upload
    }
    if configured["region"]:
        options["region"] = configured["region"]
    if configured["endpoint"]:
        options["scheme"], _, options["endpoint_override"] = configured["endpoint"].rstrip("/").partition("://")
    if configured["ca_bundle"]:
        options["tls_ca_file_path"] = configured["ca_bundle"]
    if proxy := proxy_of(_endpoint(configured)):
        options["proxy_options"] = proxy
    # Not the standard strategy, which allows a process only about a hundred more repetitions than successes: a store
    # that is busy for a minute would end a run of days.
    return pafs.S3FileSystem(retry_strategy=pafs.AwsDefaultS3RetryStrategy(max_attempts=ARROW_ATTEMPTS), **options)


os.register_at_fork(after_in_child=arrow_filesystem.cache_clear)  # connections are not shared with a child


def client() -> Any:
    """Return s3fs's filesystem, for listings, conditional creation and deletion."""
    import s3fs

    configured = settings()
    endpoint = _endpoint(configured)
    if configured["endpoint"] or proxy_of(endpoint):  # Amazon's hosts depend on the bucket and the region
        _check_reachable(endpoint)
    return s3fs.S3FileSystem(
        endpoint_url=configured["endpoint"] or None,
        client_kwargs={"region_name": configured["region"]} if configured["region"] else {},
        use_listings_cache=False,
        config_kwargs={
            "retries": {"max_attempts": ATTEMPTS, "mode": "standard"},
            "connect_timeout": CONNECT_TIMEOUT_S,
            "read_timeout": READ_TIMEOUT_S,
        },
    )


def _endpoint(configured: Mapping[str, str]) -> str:
    """Return the address of the configured store, or of Amazon's in the region if none is configured."""
    return configured["endpoint"] or f"https://s3.{configured['region'] or 'us-east-1'}.amazonaws.com"


def proxy_of(endpoint: str) -> str | None:
    """Return the environment's proxy for an endpoint (HTTPS_PROXY, HTTP_PROXY, NO_PROXY); None if there is none.

    botocore finds it by the same rules; pyarrow needs it as an argument.
    """
    parts = urlsplit(endpoint)
    if not parts.hostname or urllib.request.proxy_bypass(parts.netloc):
        return None
    return urllib.request.getproxies().get(parts.scheme)


@lru_cache(maxsize=4)
def _check_reachable(endpoint: str) -> None:
    """Check that something listens at the endpoint, or at its proxy; botocore and pyarrow would try for over a minute.

    Raises:
        EndpointConnectionError, ProxyConnectionError: no connection.
    """
    import botocore.exceptions as boto

    proxy = proxy_of(endpoint)  # with a proxy, only the actual request shows whether the endpoint can be reached
    parts = urlsplit(proxy or endpoint)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    if not parts.hostname:
        return
    for attempt in range(1, REACH_ATTEMPTS + 1):
        try:
            socket.create_connection((parts.hostname, port), timeout=CONNECT_TIMEOUT_S).close()
            return
        except OSError as error:
            if attempt == REACH_ATTEMPTS:
                if proxy:
                    raise boto.ProxyConnectionError(proxy_url=proxy) from error
                raise boto.EndpointConnectionError(endpoint_url=endpoint) from error
            time.sleep(attempt * REACH_PAUSE_S)


def exists(uri: str) -> bool:
    """Return whether an object is at `uri`; one request."""
    bucket, _, key = key_path(uri).partition("/")
    try:
        client().call_s3("head_object", Bucket=bucket, Key=key)
    except FileNotFoundError:
        return False
    return True


def wait_for(uri: str) -> None:
    """Ask for the first byte of an object, as often as botocore repeats a request to a store that is busy.

    Raises:
        OSError: the store gave another answer.
    """
    client().cat_file(key_path(uri), start=0, end=1)


def bucket_exists(uri: str) -> bool:
    """Return whether the bucket of `uri` exists."""
    import botocore.exceptions as boto

    try:
        client().call_s3("head_bucket", Bucket=bucket_of(uri))
    except (boto.ClientError, FileNotFoundError):
        return False
    return True


def find(pattern: str) -> Iterator[Object]:
    """Yield the objects of `pattern`, which is an object, a prefix (all objects below it) or a glob.

    A key may contain `?`, `*` or `[`: an object with exactly this name takes precedence over those that the glob
    matches.

    Raises:
        FileNotFoundError: the bucket does not exist.
    """
    if not glob.has_magic(pattern) or next(below(pattern), None) is not None:
        yield from below(pattern)
        return
    entries = client().glob(key_path(pattern), detail=True)
    for name, entry in entries.items():
        if entry["type"] == "file":
            yield _object(name, entry["size"], entry.get("ETag"))


def below(uri: str) -> Iterator[Object]:
    """Yield the object `uri`, or the objects below it, one page of the listing at a time.

    s3fs's `find` would hold the whole listing in memory, with more than a kilobyte per object.

    Raises:
        FileNotFoundError: the bucket does not exist.
    """
    bucket, _, key = key_path(uri).partition("/")
    request: dict[str, Any] = {"Bucket": bucket, "Prefix": f"{key}/" if key else "", "MaxKeys": KEYS_PER_REQUEST}
    empty = True
    while request:
        page = client().call_s3("list_objects_v2", **request)
        for entry in page.get("Contents", ()):
            if entry["Key"].endswith("/"):
                continue  # an empty object that "Create folder" of a web console creates
            empty = False
            yield _object(f"{bucket}/{entry['Key']}", entry["Size"], entry.get("ETag"))
        more = page.get("IsTruncated")
        request = {**request, "ContinuationToken": page["NextContinuationToken"]} if more else {}
    if not empty:
        return
    with contextlib.suppress(FileNotFoundError):
        info = client().info(f"{bucket}/{key}")
        if info["type"] == "file":
            yield _object(info["name"], info["size"], info.get("ETag"))
        return
    if not bucket_exists(uri):
        raise FileNotFoundError(uri)


def _object(name: str, size: int, etag: str | None) -> Object:
    return Object(f"s3://{name}", int(size), str(etag or "").strip('"'))


def create(uri: str, data: bytes) -> bool:
    """Create the object; return False if it exists. A store may ignore the condition and overwrite the object."""
    for attempt in range(1, CREATE_ATTEMPTS + 1):
        try:
            client().pipe_file(key_path(uri), data, mode="create")
            return True
        except FileExistsError:
            return False
        except OSError as error:
            # s3fs turns the refusal into a plain OSError, whose cause has the answer.
            answer = getattr(error.__cause__, "response", {})
            status = answer.get("ResponseMetadata", {}).get("HTTPStatusCode")
            if status == 412:
                return False
            if status != 409 or attempt == CREATE_ATTEMPTS:  # 409: another writer is creating it now
                raise
        time.sleep(attempt * 0.1)
    raise AssertionError("unreachable")


_creates_once: dict[str, bool] = {}  # bucket -> whether its store honours `If-None-Match`


def creates_once(folder: str) -> bool:
    """Return whether the store honours `If-None-Match`, by writing, recreating and removing an object below `folder`.

    A process tests each bucket once.

    Raises:
        OSError: the store refuses the object, for example because of the form of its checksum.
    """
    bucket = bucket_of(folder)
    if bucket not in _creates_once:
        probe = f"{folder}/_run/.{secrets.token_hex(8)}.tmp"
        # With pyarrow, which writes the units: a store that refuses its requests then does so before the first unit is
        # made.
        with arrow_filesystem().open_output_stream(key_path(probe), compression=None) as stream:
            stream.write(b"probe")
        try:
            _creates_once[bucket] = not create(probe, b"")
        finally:
            remove([probe])
    return _creates_once[bucket]


def move(uri: str, target: str) -> None:
    """Copy an object within the store, and delete it once the copy has its size.

    Raises:
        OSError: the copy is not whole, or the store refused.
    """
    client().cp_file(key_path(uri), key_path(target))
    sizes = [client().info(key_path(place))["size"] for place in (uri, target)]
    if len(set(sizes)) > 1:
        raise OSError(f"{target}: has {sizes[1]:,} bytes, and {uri} {sizes[0]:,}; nothing was removed")
    remove([uri])


def remove(uris: list[str]) -> None:
    """Delete objects of one bucket; objects that do not exist are ignored.

    Raises:
        OSError: the store did not delete one of them.
    """
    for first in range(0, len(uris), KEYS_PER_REQUEST):
        _remove_page(uris[first : first + KEYS_PER_REQUEST])


def _remove_page(uris: list[str]) -> None:
    # Not with s3fs's rm, which treats a key with `?`, `*` or `[` as a pattern and does not report failed deletions.
    bucket = bucket_of(uris[0])
    keys = [key_path(uri).split("/", 1)[1] for uri in uris]
    objects = {"Objects": [{"Key": key} for key in keys], "Quiet": True}
    with at(uris[0]):
        try:
            answer = client().call_s3("delete_objects", Bucket=bucket, Delete=objects)
        except OSError as error:
            if "MissingContentMD5" not in str(error):
                raise
            answer = _remove_one_by_one(bucket, keys)
    if failed := answer.get("Errors"):
        raise OSError(f"s3://{bucket}/{failed[0].get('Key')} was not deleted ({failed[0].get('Message')})")


def _remove_one_by_one(bucket: str, keys: list[str]) -> Mapping[str, Any]:
    """Delete objects one by one, for older stores that require an MD5 sum for bulk deletions, which botocore omits."""
    for key in keys:
        with at(f"s3://{bucket}/{key}"):
            client().call_s3("delete_object", Bucket=bucket, Key=key)
    return {}
