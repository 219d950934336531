"""Files and objects by uri (a local path or `s3://bucket/key`): list, read, create, replace, remove.

`jobs.store.files.s3` and `jobs.store.files.local_files` do the work.
"""

import contextlib
import glob
import io
import os
import re
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.fs as pafs

from actors.fetching.signed_urls import without_secrets
from jobs.errors import InputError, at
from jobs.store.files import faults, local_files, s3, whole
from jobs.store.files.local_files import path_hint
from jobs.store.files.objects import CompactList, Object
from jobs.store.files.spool import Spool

STREAM_BYTES = 1 << 20  # of a request for a stream from S3
_ALLOWED = "use a local path or s3://bucket/key"
_OF_A_DISK = re.compile(r"[A-Za-z]:[\\/]|\\\\\w|file:/|/(home|Users|root|Volumes|media|mnt)/")  # beginnings of paths


def is_s3(uri: str) -> bool:
    """Return whether `uri` names something on object storage."""
    return uri.startswith("s3://")


def join(uri: str, *parts: str) -> str:
    """Return `uri` with `parts` below it."""
    return "/".join([uri.rstrip("/"), *parts])


def absolute(uri: str) -> str:
    """Return an absolute local path, which workers with other working directories can use; normalise an S3 uri.

    Double slashes of an S3 uri become one (`R/` + `/matches`): pyarrow accepts no empty part of a key.

    Raises:
        InputError: the uri is empty, has a scheme other than s3, or has no bucket.
    """
    if not uri.strip():
        raise InputError(f"empty path; {_ALLOWED}")
    if "://" in uri and "@" in urlsplit(uri, allow_fragments=False).netloc:
        raise InputError(
            f"{without_secrets(uri)!r}: the address contains a user name or password; remove them, and set "
            f"AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"
        )
    if is_s3(uri):
        uri = "s3://" + re.sub("/{2,}", "/", s3.key_path(uri))
        if not s3.bucket_of(uri):
            raise InputError(f"{uri!r}: no bucket; {_ALLOWED}")
        return uri.rstrip("/")
    if "://" in uri:
        raise InputError(f"{without_secrets(uri)!r}: unknown scheme; {_ALLOWED}")
    return os.path.abspath(Path(uri).expanduser())  # noqa: PTH100 (folds "..", follows no link)


def is_on_disk(text: str) -> bool:
    """Return whether a text is an absolute path of this or another disk, as against an id such as `/m/02h`."""
    return _OF_A_DISK.match(text) is not None or (text.startswith("/") and os.path.lexists(text))


def without_disk(text: str, folders: Iterable[str]) -> str:
    """Return an absolute path relative to the first of `folders` that it is below; any other text as it is."""
    path = text.removeprefix("file://")
    return next((path[len(folder) + 1 :] for folder in folders if path.startswith(f"{folder}/")), text)


def filesystem(uri: str) -> tuple[pafs.FileSystem, str]:
    """Return pyarrow's filesystem for `uri` and the path inside it."""
    return (s3.arrow_filesystem(), s3.key_path(uri)) if is_s3(uri) else (pafs.LocalFileSystem(), uri)


@contextlib.contextmanager
def named_errors(uri: str) -> Iterator[None]:
    """Turn a filesystem's error about `uri` into an InputError with the uri, the cause and the remedy.

    Raises:
        InputError: a storage error occurred in the block.
    """
    try:
        yield
    except Exception as error:
        if (problem := faults.problem(error, uri)) is None:
            raise
        raise InputError(problem.cause, place=problem.place or None, remedy=problem.remedy or None) from error


def find(pattern: str, *, strict: bool = True) -> CompactList[Object]:
    """Return the files of `pattern`, which is a file, a glob or a folder (everything below it), sorted by uri.

    Links to files are followed, but links to folders below the folder are not; pipes and dangling links are left out.

    Args:
        strict: refuse local files that cannot be read and names that are not UTF-8. Otherwise these are listed too, so
            that the caller can report each; bytes of a name that are not UTF-8 are written as `\\udcXX`.

    Raises:
        InputError: nothing matches, access is denied, or the bucket does not exist; names `pattern`.
    """
    pattern = absolute(pattern)
    if not (is_s3(pattern) or glob.has_magic(pattern) or os.path.lexists(pattern)):
        raise InputError(f"does not exist{path_hint(pattern)}", place=pattern)
    with named_errors(pattern):
        files = _sort(s3.find(pattern)) if is_s3(pattern) else CompactList(local_files.find(pattern, strict=strict))
    if not files:
        raise InputError(f"no file matches{path_hint(pattern)}", place=pattern)
    return files


def is_hidden(uri: str) -> bool:
    """Return whether a file's name begins with a dot: other programs keep their own data in such files."""
    return uri.rsplit("/", 1)[-1].startswith(".")


def listing(folder: str) -> CompactList[Object]:
    """Return everything below `folder`, sorted by uri; empty if it does not exist.

    Raises:
        InputError: access is denied, or the bucket does not exist; names `folder`.
    """
    folder = absolute(folder)
    with named_errors(folder):
        if not is_s3(folder):
            return CompactList(local_files.find(folder, strict=True) if Path(folder).exists() else ())
        try:
            return _sort(s3.below(folder))
        except FileNotFoundError:
            if s3.bucket_exists(folder):
                return CompactList()
            raise


def _sort(objects: Iterable[Object]) -> CompactList[Object]:
    """Return `objects` sorted by uri. AWS lists in this order, SeaweedFS one folder at a time."""
    compact = CompactList(objects)
    if all(one.uri <= other.uri for one, other in pairwise(compact)):
        return compact
    return CompactList(sorted(compact))


def exists(uri: str) -> bool:
    """Return whether a file or an object is at `uri`.

    Raises:
        InputError: access is denied.
    """
    with named_errors(uri):
        return s3.exists(uri) if is_s3(uri) else Path(uri).is_file()


def has_files(uri: str) -> bool:
    """Return whether a file is at `uri`, or files are below it; on S3 reads one page of the listing.

    Raises:
        InputError: access is denied.
    """
    with named_errors(uri):
        try:
            files = s3.below(uri) if is_s3(uri) else local_files.find(uri, strict=True)
            return next(iter(files), None) is not None
        except FileNotFoundError:
            return False


def read_bytes(uri: str) -> bytes:
    """Return the content of the file or object; a .gz is not decompressed.

    Raises:
        FileNotFoundError: it does not exist.
        OSError: the store returned other bytes at each read.
    """
    with at(uri):
        if is_s3(uri):
            return whole.read(uri)
        fs, path = filesystem(uri)
        with fs.open_input_stream(path, compression=None) as stream:
            data: bytes = stream.readall()
        return data


@contextlib.contextmanager
def opened(uri: str, *, decompress: bool = True) -> Iterator[pa.NativeFile]:
    """Yield a stream of the file or object, for reading it from start to end.

    On S3, an answer that is too short is requested again, and after the last byte the content is compared with its
    ETag, if that is an MD5 sum.

    Args:
        decompress: whether to decompress what its suffix says is compressed, such as .gz.
    """
    fs, path = filesystem(uri)
    codec = _codec_of(path) if decompress else None
    if not is_s3(uri):
        with fs.open_input_stream(path, compression=codec) as stream:
            yield stream
        return
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(fs.open_input_file(path))
        buffered = io.BufferedReader(whole.CheckedStream(uri, file), STREAM_BYTES)
        stream = stack.enter_context(pa.PythonFile(buffered, mode="r"))
        yield stack.enter_context(pa.CompressedInputStream(stream, codec)) if codec else stream


def _codec_of(path: str) -> str | None:
    try:
        return str(pa.Codec.detect(path).name)
    except (TypeError, ValueError):  # the suffix is not one of a compressed file
        return None


@contextlib.contextmanager
def local_copy(uri: str) -> Iterator[Path]:
    """Yield a local file with the content: that at `uri`, or a temporary copy of the object, which was compared.

    Raises:
        FileNotFoundError: it does not exist.
        OSError: the store returned other bytes at each read.
    """
    if not is_s3(uri):
        _, path_on_disk = filesystem(uri)
        yield Path(path_on_disk)
        return
    with Spool("object") as spool:
        path = spool.path / "content"
        with at(uri):
            whole.save(uri, path)
        yield path


def create(uri: str, data: bytes | Iterable[bytes]) -> bool:
    """Create `uri` unless it exists; of several concurrent writers, only one gets True.

    On a store that ignores `If-None-Match` the last writer wins; callers therefore compare what they read back.

    Args:
        data: the content, or its pieces.
    """
    with at(uri):
        return s3.create(uri, b"".join(_pieces(data))) if is_s3(uri) else local_files.create(Path(uri), _pieces(data))


def creates_once(folder: str) -> bool:
    """Return whether `create` is exclusive at `folder`: always for local folders; S3 stores may ignore `If-None-Match`.

    A process tests an S3 store once per bucket.
    """
    if not is_s3(folder):
        return True
    with at(folder):
        return s3.creates_once(folder)


def replace(uri: str, data: bytes | Iterable[bytes]) -> None:
    """Write the content, or its pieces, to `uri` in one step, replacing what was there."""
    with Spool("whole") as spool:
        whole = spool.path / "whole"
        with whole.open("wb") as file:
            file.writelines(_pieces(data))
        publish(whole, uri)


def _pieces(data: bytes | Iterable[bytes]) -> Iterable[bytes]:
    return [data] if isinstance(data, bytes) else data


def publish(source: Path, uri: str) -> None:
    """Make the finished local file `source` appear at `uri` in one step.

    Locally: a copy next to the target, then a rename. On S3: one PUT or a multipart upload, which completes only after
    all bytes were sent. `source` is complete before the upload begins because pyarrow completes, rather than aborts, an
    upload whose stream is closed by an exception.
    """
    with at(uri):
        if not is_s3(uri):
            local_files.publish(source, Path(uri))
            return
        fs, path = filesystem(uri)
        with source.open("rb") as reader, fs.open_output_stream(path, compression=None) as stream:
            while chunk := reader.read(8 << 20):
                stream.write(chunk)


def publish_folder(folder: Path, uri: str) -> list[str]:
    """Make the files below the local `folder` appear below `uri`, one after another; return their relative paths."""
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    for name in names:
        publish(folder / name, join(uri, name))
    return names


def move(uri: str, target: str) -> None:
    """Move a file or object to a place of the same file system or bucket.

    Raises:
        OSError: it was not moved; on S3 both places may then have it.
    """
    with at(uri):
        if is_s3(uri):
            s3.move(uri, target)
        else:
            Path(uri).replace(target)


def remove(uris: list[str]) -> None:
    """Delete files, or objects of one bucket; those that do not exist are ignored."""
    if uris and is_s3(uris[0]):
        s3.remove(uris)
        return
    for uri in uris:
        with at(uri):
            Path(uri).unlink(missing_ok=True)
