from typing import Any

import pyarrow as pa

from jobs.runtime.planning import summary
from jobs.store.counts import (
    LEAST_UNREACHED,
    MESSAGE_LENGTH,
    MOST_KINDS,
    WHERE_LENGTH,
    Counts,
    Failure,
    add_failures,
    count_errors,
    failure_lines,
    failures_of,
    failures_to_json,
)


def rows(*arguments: tuple[str, str, str | None, str | None]) -> pa.Table:
    names = ["item_id", "status", "error_kind", "error_message"]
    return pa.table(
        {name: pa.array(values, pa.string()) for name, values in zip(names, zip(*arguments, strict=True), strict=True)}
    )


SOME = rows(
    ("a", "ok", None, None),
    ("b", "error", "truncated", "ends early"),
    ("c", "missing", "gone", "HTTP 404"),
    ("d", "error", "truncated", "ends earlier"),
    ("e", "skipped", None, None),
)


def test_each_kind_has_its_number_and_its_first_row() -> None:
    assert failures_of(SOME) == {
        "error/truncated": Failure(2, "b", "ends early"),
        "missing/gone": Failure(1, "c", "HTTP 404"),
        "skipped/": Failure(1, "e", ""),
    }
    assert failures_of(SOME.slice(0, 1)) == {}
    assert failures_of(SOME.select(["item_id"])) == {}


def test_a_url_or_file_names_a_row_better_than_its_id() -> None:
    named = SOME.append_column("source_url", pa.array([f"https://x/{n}" for n in range(5)]))
    assert failures_of(named)["error/truncated"].where == "https://x/1"
    pictures = SOME.append_column("image_id", pa.array([f"picture{n}" for n in range(5)]))
    assert failures_of(pictures)["error/truncated"].where == "b"
    pictures = pictures.select(["image_id", "status", "error_kind", "error_message"])
    assert failures_of(pictures)["error/truncated"].where == "picture1"
    others = pictures.rename_columns(["query_id", "status", "error_kind", "error_message"])
    assert failures_of(others)["error/truncated"].where == "picture1"


def test_secrets_in_addresses_are_not_kept() -> None:
    signed = rows(("https://h/x.jpg?X-Amz-Signature=abc", "error", "http_403", "GET https://u:p@h/x.jpg failed"))
    assert failures_of(signed) == {"error/http_403": Failure(1, "https://h/x.jpg", "GET https://h/x.jpg failed")}


def test_the_message_is_that_of_the_row_that_is_named() -> None:
    without = rows(("a", "error", "truncated", None), ("b", "error", "truncated", "ends early"))
    assert failures_of(without) == {"error/truncated": Failure(2, "a", "")}


def test_what_is_kept_is_bounded() -> None:
    many = rows(*((f"{n}" * 400, "error", f"kind{n}", "x" * 9999) for n in range(500)))
    results = failures_of(many)
    assert len(results) == MOST_KINDS + 1
    assert sum(failure.rows for failure in results.values()) == 500
    assert max(len(failure.message) for failure in results.values()) == MESSAGE_LENGTH
    assert max(len(failure.where) for failure in results.values()) == WHERE_LENGTH
    add_failures(results, failures_of(many))
    assert len(results) == MOST_KINDS + 1
    assert sum(failure.rows for failure in results.values()) == 1000


def test_counts_of_units_keep_the_first_example() -> None:
    one, two = Counts(failures=failures_of(SOME)), Counts(failures=failures_of(SOME.slice(2)))
    one += Counts.from_json(two.to_json())
    assert one.failures["error/truncated"] == Failure(3, "b", "ends early")
    assert Counts.from_json(one.to_json()) == one


def test_the_end_of_a_run_names_them_the_most_frequent_first() -> None:
    counts = Counts(5, 5, failures=failures_of(SOME))
    counts.status.update({"ok": 1, "error": 2, "missing": 1, "skipped": 1})
    lines = summary.reconciliation(counts.to_json()).splitlines()[2:]
    assert [line.strip() for line in lines] == [
        "2 error (truncated), for example b: ends early",
        "1 missing (gone), for example c: HTTP 404",
        "1 skipped, for example e",
    ]
    many = failures_to_json(failures_of(rows(*((f"{n}", "error", f"kind{n}", "x") for n in range(30)))))
    assert failure_lines(many, most=10)[10:] == ["(+20 more kinds)"]
    assert len(failure_lines(many, most=30)) == 30
    frequent = failures_of(rows(*((f"{n}", "error", kind, None) for n, kind in enumerate(["a", "b", "b"]))))
    assert failure_lines(failures_to_json(frequent), most=1)[0] == "2 error (b), for example 1"


SCHEMA = {"image_id": pa.string(), "status": pa.string(), "error_kind": pa.string(), "error_message": pa.string(),
          "attempts": pa.int32()}  # fmt: skip


def item_rows(*groups: tuple[int, dict[str, Any]]) -> pa.Table:
    listed = [group for count, group in groups for _ in range(count)]
    numbered = [{"image_id": f"i{n}", **row} for n, row in enumerate(listed)]
    return pa.Table.from_pylist(numbered, schema=pa.schema(SCHEMA))


UNREACHED = {"status": "error", "error_kind": "dns", "error_message": "no address", "attempts": 3}
MISSING = {"status": "missing", "attempts": 1}
NOT_ASKED = {"status": "missing", "attempts": 0}


def test_a_network_without_any_answer_is_the_runs_fault() -> None:
    assert count_errors(item_rows((LEAST_UNREACHED, UNREACHED))).of_unit().failed == LEAST_UNREACHED
    assert count_errors(item_rows((LEAST_UNREACHED - 1, UNREACHED))).of_unit().failed == 0
    assert count_errors(item_rows((LEAST_UNREACHED, UNREACHED), (1, MISSING))).of_unit().failed == 0  # a host answered
    counts = count_errors(item_rows((LEAST_UNREACHED, UNREACHED), (5, NOT_ASKED)))
    assert (counts.items, counts.answered, counts.of_unit().failed) == (LEAST_UNREACHED + 5, 0, LEAST_UNREACHED)
    total = count_errors(item_rows((5, UNREACHED)))
    total += count_errors(item_rows((LEAST_UNREACHED - 5, UNREACHED)))
    assert total.of_unit().failed == LEAST_UNREACHED


def test_an_item_counts_once_and_without_attempts_there_is_no_network() -> None:
    errors = item_rows((2, UNREACHED), (1, UNREACHED | {"error_kind": "no_memory"})).drop_columns(["attempts"])
    twice = pa.concat_tables([errors, errors])
    counts = count_errors(twice)
    assert (counts.items, counts.failed, counts.of_network) == (3, 1, {})
    assert count_errors(errors.select(["image_id", "status"])).items == 0


def test_an_example_is_the_picture_or_its_address_cut_off() -> None:
    failed = {"status": "error", "error_kind": "no_memory", "error_message": "m" * 999, "attempts": 1}
    named = item_rows((1, failed))
    url = pa.array(["https://h/" + "u" * 999])
    for batch, where in ((named, "i0"), (named.append_column("source_url", url), "https://h/" + "u" * 290)):
        (failure,) = count_errors(batch).of_run.items()
        assert failure == ("error/no_memory", Failure(1, where, "m" * 200))
