"""Storage errors in one line: place, cause and remedy.

pyarrow reports an S3 error as an OSError whose text includes bucket, key and operation; s3fs raises an OSError without
bucket and key, whose cause is botocore's answer. This module reads both.
"""

import errno
import os
import re
from typing import NamedTuple

import pyarrow as pa

from actors.errors import first_line
from actors.fetching.signed_urls import without_secrets
from jobs.errors import RunError
from jobs.store.files.spool import FULL_DISK, PREFIX

CHECKSUM_SETTINGS = "AWS_REQUEST_CHECKSUM_CALCULATION=when_required AWS_RESPONSE_CHECKSUM_VALIDATION=when_required"

KEPT = "Completed units are kept; run the same command again to resume."
_SPOOL = re.compile(rf"(?P<folder>.*)/{PREFIX}[^/]*(?:/.*)?")
_S3 = re.compile(r"AWS Error (?P<code>.+?) during (?P<operation>\w+) operation: (?P<message>.*)", re.DOTALL)
_KEY = re.compile(r" key '(?P<key>.*)' in bucket '(?P<bucket>[^']+)'", re.DOTALL)
_BUCKET = re.compile(r" bucket '(?P<bucket>[^']+)'")
_STATUS = re.compile(r"\(HTTP status (\d+)\)")
_UNKNOWN = re.compile(r"Unable to parse ExceptionName: (?P<code>\S*) Message: (?P<message>.*)", re.DOTALL)

_CHECKSUM = re.compile(
    r"^411\b|MissingContentLength|MissingContentMD5|XAmzContent|InvalidDigest|checksum|trailer", re.I
)
_UNSUPPORTED = re.compile(r"NotImplemented|^501\b")
_EXPIRED = re.compile(r"Expired|TokenRefresh|EXPIRED")
_EXPIRED_HEAD = re.compile(r"^400 (400)?$")  # the answer to a HEAD has no body, hence no code
_CLOCK = re.compile(r"TimeTooSkewed|TIME_TOO_SKEWED")
_DENIED = re.compile(
    r"^40[13]\b|AccessDenied|ACCESS_DENIED|Access Denied|Forbidden|Signature|SIGNATURE|AccessKeyId|ACCESS_KEY_ID|"
    r"InvalidToken|CLIENT_TOKEN|AllAccessDisabled|AccountProblem"
)
_ABSENT = re.compile(r"^404\b|NoSuch|NO_SUCH|RESOURCE_NOT_FOUND")
_REGION = re.compile(r"^30[17]\b|PermanentRedirect|AuthorizationHeaderMalformed|bucket is located")
_FULL = re.compile(r"^507\b|InsufficientStorage|Quota|StorageFull")
_BUSY = re.compile(
    r"^(429|500|502|503|504)\b|SlowDown|SLOW_DOWN|InternalError|INTERNAL_FAILURE|ServiceUnavailable|"
    r"SERVICE_UNAVAILABLE|NETWORK_CONNECTION|RequestTimeout|REQUEST_TIMEOUT|THROTTLING|curlCode"
)
_REGION_NAMED = re.compile(r"expecting '([a-z0-9-]+)'")
_SET_REGION = "set AWS_REGION"
_ABSENT_KEY = "bucket {!r} or the key does not exist"
# Patterns of "STATUS CODE" or of the message of an S3 answer, with meaning and remedy; the first match counts.
_ANSWERS: tuple[tuple[re.Pattern[str], str, str], ...] = (
    (_CHECKSUM, "the store does not accept this form of request checksum", f"set {CHECKSUM_SETTINGS}"),
    (_EXPIRED, "the credentials have expired", "renew them"),
    (_EXPIRED_HEAD, "the store refused the request; most often the credentials have expired", "renew them"),
    (_CLOCK, "the clocks of this machine and the store differ", "set this machine's clock"),
    (
        _DENIED,
        "access denied",
        "check the credentials (AWS_ACCESS_KEY_ID or AWS_PROFILE): they lack the permission, or have expired",
    ),
    (_ABSENT, _ABSENT_KEY, "check the name"),
    (_REGION, "the bucket is in another region", _SET_REGION),
    (_FULL, "the store is full", "free space there, or use another out="),
    (_BUSY, "the store did not answer", "run the same command again later"),
    (_UNSUPPORTED, "the store does not support the request", f"for an older store, set {CHECKSUM_SETTINGS}"),
)
_ERRNO = {
    errno.ENOSPC: "free space there",
    errno.EDQUOT: "free space there or raise the quota",
    errno.EFBIG: "raise the limit of file sizes (ulimit -f)",
    errno.EROFS: "use another out=",
    errno.EIO: "check the disk or the network file system",
    errno.EACCES: "check the permissions",
    errno.EPERM: "check the permissions",
    errno.EISDIR: "remove or rename the folder of this name",
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
    errno.ENAMETOOLONG: "use a shorter path",
}


class StoreAnswer(NamedTuple):
    """The answer of an S3 store to a failed request; unknown parts are empty."""

    place: str
    status: str
    code: str
    message: str
    operation: str
    region: str = ""  # the bucket's region according to the store


class StorageProblem(NamedTuple):
    """What went wrong in storage; place and remedy may be empty."""

    place: str
    cause: str
    remedy: str

    def __str__(self) -> str:
        return (f"{self.place}: " if self.place else "") + self.advice

    @property
    def advice(self) -> str:
        """The cause and the remedy."""
        return self.cause + (f"; {self.remedy}" if self.remedy else "")

    def as_run_error(self) -> RunError:
        """Return the error of a run that ends because of the problem."""
        return RunError(f"{self.advice}. {KEPT}", place=self.place or None)


def sentence(error: BaseException, place: str = "") -> str | None:
    """Return `problem` in one line."""
    described = problem(error, place)
    return None if described is None else str(described)


def problem(error: BaseException, place: str = "") -> StorageProblem | None:
    """Return place, cause and remedy of a storage error; None for an error of another kind.

    Args:
        place: the uri that was read or written, if known; a place below it that the error names is preferred.
    """
    if not isinstance(error, OSError) and not _is_botocore(error):
        return None
    exact = _where(place, _filename(error))
    if (answer := _answer(error)) is not None:
        return _describe(answer, _where(place, answer.place) if answer.place else exact)
    if _is_botocore(error):
        return _join(exact, *_client_side(error))
    if isinstance(error, NotADirectoryError | FileExistsError):
        return _join(place or exact, "a file is where a folder is needed", "")
    if is_full(error) and (temporary := _temporary(_filename(error))):
        return _join(temporary, *_local(error, ""), "or set TMPDIR to a folder with more space")
    return _join(exact, *_local(error, exact))


def is_of_store(error: BaseException) -> bool:
    """Return whether a store or the operating system reported the error, rather than that what was read is damaged."""
    if _answer(error) is not None or _is_botocore(error):
        return True
    return isinstance(error, OSError) and error.errno is not None


def is_full(error: BaseException) -> bool:
    """Return whether a disk, or the user's quota on it, is full."""
    return isinstance(error, OSError) and error.errno in FULL_DISK


def is_damage(error: BaseException) -> bool:
    """Return whether pyarrow raised `error` because of a file's content, not because the file could not be read."""
    if isinstance(error, OSError):
        return type(error) is OSError and error.errno is None and _answer(error) is None
    return isinstance(error, pa.ArrowException | UnicodeDecodeError)


def _answer(error: BaseException) -> StoreAnswer | None:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(response := getattr(cause, "response", None), dict) and isinstance(response.get("Error"), dict):
            details = response["Error"]
            status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", "")
            operation = getattr(cause, "operation_name", "")
            code, message = (str(details.get(name) or "") for name in ("Code", "Message"))
            region = response.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("x-amz-bucket-region", "")
            return StoreAnswer("", str(status), code, message, str(operation), region or _region_in(message))
        cause = cause.__cause__
    return _parse_answer(str(error))


def _parse_answer(text: str) -> StoreAnswer | None:
    if (match := _S3.search(text)) is None:
        return None
    code, message = match["code"], match["message"].strip()
    status = _STATUS.search(code)
    code = "" if status or code.startswith("[") else code
    if inner := _UNKNOWN.match(message):
        code, message = inner["code"], inner["message"].strip()
    if message == "No response body.":
        message = ""
    at_key, at_bucket = _KEY.search(text, 0, match.start()), _BUCKET.search(text, 0, match.start())
    place = f"s3://{at_key['bucket']}/{at_key['key']}" if at_key else f"s3://{at_bucket['bucket']}" if at_bucket else ""
    return StoreAnswer(place, status[1] if status else "", code, message, match["operation"], _region_in(message))


def _region_in(message: str) -> str:
    """Return the region that a store expects, from the message of its answer; empty if it has no region."""
    match = _REGION_NAMED.search(message)
    return match[1] if match else ""


def _describe(answer: StoreAnswer, where: str) -> StorageProblem:
    meaning, remedy = (
        _meaning(f"{answer.status} {answer.code}") or _meaning(answer.message) or ("the store refused", "")
    )
    if remedy == _SET_REGION:
        remedy += f"={answer.region}" if answer.region else " to the bucket's"
    status = f"HTTP {answer.status}" if answer.status and answer.status != answer.code else ""
    details = ", ".join(filter(None, (answer.operation, status, answer.code, _one_line(answer.message))))
    return _join(where, f"{meaning.format(_bucket(where))} ({details})", remedy)


def _meaning(text: str) -> tuple[str, str] | None:
    return next(((meaning, remedy) for pattern, meaning, remedy in _ANSWERS if pattern.search(text)), None)


def _is_botocore(error: BaseException) -> bool:
    """Return whether botocore defines the error's type; does not import botocore, which local runs do not need."""
    return any(kind.__module__.startswith("botocore.") for kind in type(error).__mro__)


def _local(error: BaseException, where: str) -> tuple[str, str]:
    """Return cause and remedy of an error that the operating system or pyarrow reported."""
    if isinstance(error, FileNotFoundError) and where:
        return (_ABSENT_KEY.format(_bucket(where)) if where.startswith("s3://") else "does not exist"), ""
    remedy = _ERRNO.get(getattr(error, "errno", None) or 0, "")
    if isinstance(error, PermissionError):
        return f"access denied ({_cause(error)})", remedy or "check the permissions"
    return _cause(error), remedy


def _client_side(error: BaseException) -> tuple[str, str]:
    """Return cause and remedy of an error that botocore raised without an answer from the store."""
    kinds = {kind.__name__ for kind in type(error).__mro__}
    if kinds & {"NoCredentialsError", "PartialCredentialsError"}:
        cause = "no AWS credentials in the environment, profile or instance role"
        return cause, "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE=NAME of ~/.aws/config"
    if "ProxyConnectionError" in kinds:
        return f"the proxy cannot be reached ({first_line(error)})", "check HTTPS_PROXY, HTTP_PROXY and NO_PROXY"
    if kinds & {"HTTPClientError", "ConnectionError"}:
        return f"the storage endpoint cannot be reached ({first_line(error)})", "check AWS_ENDPOINT_URL and the network"
    return first_line(error), ""


def _temporary(place: str) -> str:
    """Return `TMPDIR=FOLDER` if `place` is in a folder of temporary files, `TMPDIR` without a place, else "".

    An error about a full disk without a place is about a temporary file other than a spool.
    """
    match = _SPOOL.fullmatch(place)
    return f"TMPDIR={match['folder']}" if match else "" if place else "TMPDIR"


def _cause(error: BaseException) -> str:
    """Return the cause, without the number and file name that Python adds, and with pyarrow's words for a full disk."""
    strerror = os.strerror(getattr(error, "errno", 0)) if is_full(error) else getattr(error, "strerror", None)
    return _one_line(strerror) if strerror else first_line(error)


def _filename(error: BaseException) -> str:
    name = getattr(error, "place", None) or getattr(error, "filename", None)
    return name if isinstance(name, str) else ""


def _where(place: str, named: str) -> str:
    """Return `named` if it is below `place`, or if `place` is empty."""
    return named if not place or named.startswith(f"{place.rstrip('/')}/") else place


def _bucket(uri: str) -> str:
    return uri.removeprefix("s3://").split("/", 1)[0]


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _join(where: str, cause: str, *remedies: str) -> StorageProblem:
    return StorageProblem(where, without_secrets(cause), " ".join(filter(None, remedies)))
