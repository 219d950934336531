"""Locating a model's files: a name on the hub, a folder, a small local model, or a copy from S3."""

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, Any, NamedTuple

from actors import local_models
from actors.errors import ModelError
from actors.ids import content_id
from actors.untrusted import parse_json

SCHEME = "s3://"
# The same as transformers loads: no pickled weights and no code.
WEIGHTS = ".safetensors"
SUFFIXES = (WEIGHTS, ".json", ".txt", ".model", ".jinja", ".tiktoken")
THREADS = 8  # files copied at a time
MOST_HEADER = 100_000_000  # bytes, the limit of the library safetensors
HEADER_BLOCK = 1 << 20  # bytes requested at a time for an object's header


def is_s3(model: str) -> bool:
    """Return whether `model` is an S3 prefix, `s3://bucket/folder`."""
    return model.startswith(SCHEME)


def is_ready(model: str) -> bool:
    """Return whether `model` is `local:NAME` and its checkpoint exists.

    Raises:
        ModelError: `local:NAME` with an unknown name.
    """
    with _of(model):
        return local_models.is_ready(model)


@contextlib.contextmanager
def _of(model: str) -> Iterator[None]:
    """Name the model in errors of `local_models`."""
    try:
        yield
    except ValueError as error:
        raise ModelError(str(error), model) from error


def resolve(model: str, *, weights: bool = True, nested: bool = False) -> str:
    """Return the folder of `local:NAME` (built on first use) or of `s3://...` (copied); any other `model` unchanged.

    A model on S3 is copied once per machine into the cache (`actors.local_models.cache_folder`): processes that need it
    at the same time wait for one copy. If its objects changed, it is copied again.

    Args:
        weights: copy the weights too; without them the folder has only what a processor needs.
        nested: the model's parts are in subfolders, as in a pipeline of diffusers.

    Raises:
        ValueError: `local:NAME` with an unknown name, or no model at that S3 prefix.
    """
    if not is_s3(model):
        with _of(model):
            return local_models.resolve(model)
    store, files = storage(), objects(model, nested=nested)
    version = content_id(model, *(f"{name} {size} {etag}" for name, size, etag in files))
    folder = local_models.cache_folder() / "s3" / version / ("whole" if weights else "without-weights") / name_of(model)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            _copy(store, model, [name for name, _, _ in files if weights or not name.endswith(WEIGHTS)], folder)
    return str(folder)


def name_of(model: str) -> str:
    """Return the last part of an S3 prefix."""
    return PurePosixPath(model.removeprefix(SCHEME)).name


def objects(model: str, *, nested: bool = False) -> list[tuple[str, int, str]]:
    """Return the name, size and ETag of each file of a model on S3.

    Args:
        nested: include the files of subfolders, and omit the weights outside them, which are the same in one file.

    Raises:
        ValueError: there are no files, or they cannot be listed.
    """
    prefix = model.removeprefix(SCHEME).rstrip("/")
    try:
        listed = storage().find(prefix, detail=True) if nested else storage().ls(prefix, detail=True)
    except (OSError, ValueError) as error:
        raise ModelError(f"cannot be listed ({error}); allowed: a folder of a model on S3", model) from error
    entries = listed.values() if isinstance(listed, dict) else listed
    files = [(entry["name"].removeprefix(f"{prefix}/"), entry["size"], str(entry.get("ETag", ""))) for entry in entries]
    if nested:
        files = [file for file in files if not _is_unused_weight(file[0])]
    if not (chosen := sorted(file for file in files if file[0].endswith(SUFFIXES))):
        raise ModelError("no files of a model there; copy a folder with config.json and .safetensors to it", model)
    if outside := [name for name, _, _ in chosen if ".." in name.split("/") or name.startswith("/")]:
        raise ModelError(f"has the object {outside[0]!r}; only names within the folder are allowed", model)
    return chosen


def _is_unused_weight(name: str) -> bool:
    """Return whether a pipeline of diffusers does not load this file: all weights in one file, or a variant."""
    return name.endswith(WEIGHTS) and ("/" not in name or name.endswith(f".fp16{WEIGHTS}"))


def read(model: str, name: str) -> str | None:
    """Return the content of a text file of a model on S3; None if it does not exist."""
    if name not in {file for file, _, _ in objects(model)}:
        return None
    text: bytes = storage().cat_file(f"{model.removeprefix(SCHEME).rstrip('/')}/{name}")
    return text.decode("utf-8")


def storage() -> Any:
    """Return s3fs's file system, with credentials, region and endpoint from the usual AWS chain."""
    import s3fs

    return s3fs.S3FileSystem(use_listings_cache=False)


def check_weights(folder: Path, *, nested: bool = False) -> None:
    """Check from their headers and indexes that the weights in a folder are complete.

    Args:
        nested: the model's parts are in subfolders, as in a pipeline of diffusers.

    Raises:
        ValueError: an index is damaged, or lists a file that is missing or elsewhere; or a .safetensors file is shorter
            or longer than its header says.
    """
    files = [file for pattern in ("*", "*/*") if nested or pattern == "*" for file in folder.glob(pattern)]
    sizes = {file.relative_to(folder).as_posix(): file.stat().st_size for file in files if file.is_file()}
    _check(_ModelFolder(f"{folder}", sizes, lambda name: (folder / name).open("rb")))


def check_stored_weights(model: str, *, nested: bool = False) -> None:
    """Check a model on S3 as `check_weights` does, reading only its headers and indexes."""
    store, prefix = storage(), model.removeprefix(SCHEME).rstrip("/")
    sizes = {name: size for name, size, _ in objects(model, nested=nested)}
    _check(_ModelFolder(model.rstrip("/"), sizes, lambda name: store.open(f"{prefix}/{name}", block_size=HEADER_BLOCK)))


def read_header(stream: IO[bytes]) -> tuple[int, dict[str, Any]]:
    """Return the offset of the first tensor's bytes in a .safetensors file, and its header.

    Raises:
        ValueError: the file is not in that format.
    """
    length = int.from_bytes(stream.read(8), "little")
    if not 0 < length <= MOST_HEADER:
        raise ValueError(f"not a .safetensors file: its header would have {length} bytes")
    return 8 + length, parse_json(stream.read(length))


class _ModelFolder(NamedTuple):
    """The files of a model.

    Attributes:
        place: the folder's name in messages.
        sizes: bytes of each file, by path within the folder.
        open: opens one of the files.
    """

    place: str
    sizes: Mapping[str, int]
    open: Callable[[str], IO[bytes]]


def _check(folder: _ModelFolder) -> None:
    _check_indexes(folder)
    names = sorted(name for name in folder.sizes if name.endswith(WEIGHTS))
    with ThreadPoolExecutor(THREADS) as pool:
        for name, expected in zip(names, pool.map(partial(_expected_size, folder), names), strict=True):
            if folder.sizes[name] != expected:
                header = f"{expected:,} by its header" if expected else "no readable header"
                why = f"{name}: damaged: {folder.sizes[name]:,} bytes, {header}; copy or download it again"
                raise ModelError(why, folder.place)


def _expected_size(folder: _ModelFolder, name: str) -> int | None:
    """Return the bytes of a .safetensors file according to its header; None if the header is unreadable."""
    with folder.open(name) as stream:
        try:
            start, header = read_header(stream)
            ends = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
            return start + int(max(ends, default=0))
        except (ValueError, KeyError, TypeError, AttributeError, IndexError):
            return None


def _check_indexes(folder: _ModelFolder) -> None:
    for name in sorted(name for name in folder.sizes if name.endswith(".index.json")):
        try:
            with folder.open(name) as stream:
                files = set(parse_json(stream.read())["weight_map"].values())
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ModelError(f"{name}: not an index of weights ({type(error).__name__})", folder.place) from error
        if outside := sorted(str(file) for file in files if not isinstance(file, str) or Path(file).name != file):
            why = f"{name}: names the file {outside[0]!r}; only files next to the index are allowed"
            raise ModelError(why, folder.place)
        missing = sorted(file for file in files if str(PurePosixPath(name).parent / file) not in folder.sizes)
        if missing and name.endswith(f"{WEIGHTS}.index.json"):  # pickled weights are not loaded
            why = f"{name}: {len(missing)} of {len(files)} files are missing, the first {missing[0]}"
            raise ModelError(f"{why}; copy or download them", folder.place)


def _copy(store: Any, model: str, names: Sequence[str], folder: Path) -> None:
    prefix = model.removeprefix(SCHEME).rstrip("/")
    temporary = Path(tempfile.mkdtemp(prefix=".copy-", dir=folder.parent))
    try:
        for name in names:
            (temporary / name).parent.mkdir(parents=True, exist_ok=True)
        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(lambda name: store.get_file(f"{prefix}/{name}", os.fspath(temporary / name)), names))
        temporary.chmod(0o755)
        temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
