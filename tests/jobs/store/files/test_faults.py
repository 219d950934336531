"""Errors of disks and object stores, as the clients raise them, become place, cause and remedy."""

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs
import pytest

from jobs.errors import InputError
from jobs.runtime.command_line import cli
from jobs.runtime.worker_reports import run_error
from jobs.store.files import faults, locations
from jobs.store.files import s3 as s3_store
from jobs.store.files.faults import CHECKSUM_SETTINGS
from tests.cases import check_cases
from tests.factories import record, write_records
from tests.jobs.store.answering import answering, in_environment
from tests.jobs.store.small_runs import begin, plan

KEY = "s3://bucket/a table/it's.parquet"


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    folder = tmp_path / "whole"
    folder.write_bytes(b"content")
    return folder


OPERATIONS: dict[str, Callable[[Path], Any]] = {
    "publish": lambda whole: locations.publish(whole, KEY),
    "read": lambda _: locations.read_bytes(KEY),
    "create": lambda _: locations.create(KEY, b"content"),
    "remove": lambda _: locations.remove([KEY]),
}
WITH_CODE = ["publish", "create", "remove"]  # the answer to a HEAD has no body, hence no code
ANSWERS = [
    (411, "MissingContentLength", list(OPERATIONS), "checksum", CHECKSUM_SETTINGS),
    (400, "XAmzContentSHA256Mismatch", ["publish"], "checksum", CHECKSUM_SETTINGS),
    (501, "NotImplemented", list(OPERATIONS), "does not support", CHECKSUM_SETTINGS),
    (403, "AccessDenied", list(OPERATIONS), "access denied", "credentials"),
    (403, "", list(OPERATIONS), "access denied", "credentials"),
    (403, "SignatureDoesNotMatch", list(OPERATIONS), "access denied", "credentials"),
    (400, "ExpiredToken", WITH_CODE, "expired", "renew"),
    (404, "NoSuchBucket", list(OPERATIONS), "bucket 'bucket' or the key does not exist", ""),
    (507, "InsufficientStorage", list(OPERATIONS), "full", "free space"),
]


def test_the_region_that_a_store_names_is_in_the_remedy(whole: Path) -> None:
    headers = {"x-amz-bucket-region": "eu-west-1"}
    with answering(301, "PermanentRedirect", "elsewhere", headers) as endpoint, in_environment(endpoint):
        for name in ("create", "remove"):
            with pytest.raises(OSError, match=r".") as raised:
                OPERATIONS[name](whole)
            described = str(faults.sentence(raised.value))
            assert "the bucket is in another region" in described
            assert described.endswith("; set AWS_REGION=eu-west-1"), name
    malformed = (
        "AWS Error UNKNOWN during PutObject operation: Unable to parse ExceptionName: AuthorizationHeaderMalformed "
        "Message: The region 'us-east-1' is wrong"
    )
    for text, region in ((f"{malformed}; expecting 'eu-west-1'", "=eu-west-1"), (malformed, " to the bucket's")):
        assert str(faults.sentence(OSError(text))).endswith(f"; set AWS_REGION{region}")


def test_the_region_is_also_read_from_an_answer_without_its_header() -> None:
    class BotoError(Exception):
        operation_name = "PutObject"

        def __init__(self, message: str, **headers: str) -> None:
            details = {"Code": "AuthorizationHeaderMalformed", "Message": message}
            self.response = {"Error": details, "ResponseMetadata": {"HTTPStatusCode": 400, "HTTPHeaders": headers}}

    def region(cause: BaseException) -> str:
        error = OSError("refused")
        error.__cause__ = RuntimeError("between")
        error.__cause__.__cause__ = cause
        answer = faults._answer(error)
        assert answer is not None
        assert (answer.status, answer.operation) == ("400", "PutObject")
        return answer.region

    wrong = "the region 'us-east-1' is wrong; expecting 'eu-west-1'"
    assert region(BotoError(wrong)) == "eu-west-1"
    assert region(BotoError(wrong, **{"x-amz-bucket-region": "eu-north-1"})) == "eu-north-1"
    assert region(BotoError("no")) == ""


@pytest.mark.parametrize("case", ANSWERS, ids=lambda case: f"{case[0]}{case[1]}")
def test_an_answer_of_a_store_gives_place_cause_and_remedy(
    case: tuple[int, str, list[str], str, str], whole: Path
) -> None:
    status, code, operations, cause, remedy = case
    with answering(status, code, "some text") as endpoint, in_environment(endpoint):
        for name in operations:
            with pytest.raises(OSError, match=r".") as raised:
                OPERATIONS[name](whole)
            message = faults.sentence(raised.value)
            assert message is not None, name
            assert message.startswith(f"{KEY}: "), name
            assert cause in message, name
            assert remedy in message, name
            assert "\n" not in message


def test_an_error_of_storage_in_a_worker_ends_the_run_with_place_cause_and_remedy(whole: Path) -> None:
    with answering(411, "MissingContentLength", "no length") as endpoint, in_environment(endpoint):
        with pytest.raises(OSError, match="HTTP status 411") as raised:
            locations.publish(whole, KEY)
        message = faults.sentence(raised.value)
    full = OSError(28, "No space left on device", "/out/u.parquet")
    for error, described in (
        (raised.value, f"{message}. {faults.KEPT}"),
        (full, f"/out/u.parquet: No space left on device; free space there. {faults.KEPT}"),
    ):
        assert str(run_error(error)) == described


def test_an_answer_without_a_message() -> None:
    with answering(404, "NoSuchBucket", "") as endpoint, in_environment(endpoint):
        with pytest.raises(OSError, match=r".") as raised:
            locations.create(KEY, b"content")
        assert "(PutObject, HTTP 404, NoSuchBucket)" in (faults.sentence(raised.value) or "")


def test_a_store_that_refuses_uploads_is_found_before_the_first_unit(
    s3: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = f"{s3}/{tmp_path.name}/table"
    with answering(411, "MissingContentLength") as endpoint:
        refused = pafs.S3FileSystem(access_key="k", secret_key="s", region="us-east-1", endpoint_override=endpoint)
        monkeypatch.setattr(s3_store, "arrow_filesystem", lambda: refused)  # writes the units; s3fs the other objects
        monkeypatch.setattr(s3_store, "_creates_once", {})
        with pytest.raises(InputError, match=CHECKSUM_SETTINGS):
            begin(plan(out))
    assert list(locations.listing(out)) == []


def test_nobody_at_the_endpoint_and_no_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    import botocore.exceptions as boto

    unreachable = boto.EndpointConnectionError(endpoint_url="http://127.0.0.1:9")
    assert "the storage endpoint cannot be reached" in (faults.sentence(unreachable, KEY) or "")
    assert "no AWS credentials" in (faults.sentence(boto.NoCredentialsError(), KEY) or "")
    with (
        pytest.raises(InputError, match=r"^s3://bucket/x: no AWS credentials"),
        locations.named_errors("s3://bucket/x"),
    ):
        raise boto.NoCredentialsError


def test_local_errors_as_sentences() -> None:
    cases = [
        (OSError(errno.ENOSPC, "No space left", "/full/x"), "/full/x: No space left on device; free space there"),
        (
            OSError(errno.ENOSPC, "No space left", "/scratch/remine-ab/data.parquet"),
            "TMPDIR=/scratch: No space left on device; free space there or set TMPDIR to a folder with more space",
        ),
        (
            OSError(errno.ENOSPC, "Error writing bytes to file. Detail: [errno 28] No space left on device"),
            "TMPDIR: No space left on device; free space there or set TMPDIR to a folder with more space",
        ),
        (OSError(errno.EISDIR, "Is a directory", "/x"), "/x: Is a directory; remove or rename the folder of this name"),
        (PermissionError(errno.EACCES, "denied", "/x"), "/x: access denied (denied); check the permissions"),
        (FileNotFoundError(errno.ENOENT, "No such file", "/x"), "/x: does not exist"),
        (OSError("first:\nsecond"), "first: second"),
        (OSError(), "OSError"),
        (ValueError("no number"), None),
        (ZeroDivisionError(), None),
    ]  # fmt: skip

    def check(error: Exception, content: str | None) -> None:
        assert faults.sentence(error) == content

    check_cases(check, cases)


def test_the_more_exact_place_is_named() -> None:
    inside = OSError(errno.EIO, "Input/output error", "/out/_run/identity.json")
    assert (faults.sentence(inside, "/out") or "").startswith("/out/_run/identity.json: ")
    assert (faults.sentence(inside, "/other") or "").startswith("/other: ")


def test_damage_is_distinguished_from_a_file_that_cannot_be_read() -> None:
    cases = [
        (OSError("Invalid flatbuffers message."), True),
        (OSError("Couldn't deserialize thrift: no more data"), True),
        (pa.ArrowInvalid("Parquet magic bytes not found"), True),
        (pa.ArrowNotImplementedError("unknown type"), True),
        (OSError(errno.EIO, "Input/output error"), False),
        (PermissionError("Access Denied"), False),
        (OSError("When reading: AWS Error NETWORK_CONNECTION during GetObject operation: curlCode: 56"), False),
        (ValueError("x"), False),
    ]

    def check(error: Exception, damage: bool) -> None:
        assert faults.is_damage(error) is damage

    check_cases(check, cases)


def test_a_store_that_wants_md5_sums_is_asked_to_delete_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, Any]] = []

    class Old:
        def call_s3(self, operation: str, **arguments: Any) -> dict[str, Any]:
            asked.append((operation, arguments.get("Key")))
            if operation == "delete_objects":
                raise OSError(
                    errno.EIO, "An error occurred (MissingContentMD5) when calling the DeleteObjects operation"
                )
            return {}

    monkeypatch.setattr("jobs.store.files.s3.client", Old)
    locations.remove(["s3://bucket/a", "s3://bucket/b/c?"])
    assert asked == [("delete_objects", None), ("delete_object", "a"), ("delete_object", "b/c?")]


def test_objects_that_a_store_does_not_delete_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer to a request for several deletions names those that failed, with a status of success."""
    answers: list[dict[str, Any]] = [{"Errors": []}, {"Errors": [{"Key": "b", "Message": "Access Denied"}]}]
    deleted: list[list[str]] = []

    class Store:
        def call_s3(self, _: str, *, Bucket: str, Delete: dict[str, Any]) -> dict[str, Any]:  # noqa: N803
            assert Bucket == "bucket"
            deleted.append([one["Key"] for one in Delete["Objects"]])
            return answers[len(deleted) - 1]

    monkeypatch.setattr("jobs.store.files.s3.client", Store)
    monkeypatch.setattr("jobs.store.files.s3.KEYS_PER_REQUEST", 2)
    with pytest.raises(OSError, match=r"s3://bucket/b was not deleted \(Access Denied\)"):
        locations.remove([f"s3://bucket/{key}" for key in ("x", "y/*?", "b", "c", "d")])
    assert deleted == [["x", "y/*?"], ["b", "c"]]


def one_line(capsys: pytest.CaptureFixture[str]) -> str:
    printed: str = capsys.readouterr().err
    assert printed.startswith("error: ")
    assert printed.count("\n") == 1
    return printed


def test_a_store_that_refuses_at_the_start_is_exit_code_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_records(str(tmp_path / "records"), [[record("a")]])
    with answering(403, "AccessDenied", "Access Denied") as endpoint, in_environment(endpoint):
        assert cli.main("curate", [f"input={tmp_path}/records", "out=s3://bucket/out"]) == 2
    message = one_line(capsys)
    assert "s3://bucket/out" in message
    assert "access denied" in message


@pytest.mark.parametrize("case", [(411, CHECKSUM_SETTINGS), (403, "credentials")], ids=["411", "403"])
def test_a_store_that_refuses_half_way_is_exit_code_1(
    case: tuple[int, str],
    s3: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (status, remedy), out = case, f"{s3}/{tmp_path.name}/out"
    write_records(str(tmp_path / "records"), [[record("a")]])
    with answering(status) as endpoint:
        refusing = pafs.S3FileSystem(
            access_key="k", secret_key="s", region="us-east-1", endpoint_override=endpoint, scheme="http"
        )
        publish = locations.publish

        def refused(source: Path, uri: str) -> None:
            with monkeypatch.context() as patched:
                patched.setattr("jobs.store.files.s3.arrow_filesystem", lambda: refusing)
                publish(source, uri)

        monkeypatch.setattr(locations, "publish", refused)
        assert cli.main("curate", [f"input={tmp_path}/records", f"out={out}"]) == 1
    message = one_line(capsys)
    assert f"{out}/" in message
    assert remedy in message
    monkeypatch.undo()
    assert cli.main("curate", [f"input={tmp_path}/records", f"out={out}"]) == 0
