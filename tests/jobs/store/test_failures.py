import pyarrow as pa

from jobs.runtime.planning import summary
from jobs.store import failures
from jobs.store.counts import Counts
from jobs.store.failures import Failure


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
    assert failures.failures_of(SOME) == {
        "error/truncated": Failure(2, "b", "ends early"),
        "missing/gone": Failure(1, "c", "HTTP 404"),
        "skipped/": Failure(1, "e", ""),
    }
    assert failures.failures_of(SOME.slice(0, 1)) == {}
    assert failures.failures_of(SOME.select(["item_id"])) == {}


def test_a_url_or_file_names_a_row_better_than_its_id() -> None:
    named = SOME.append_column("source_url", pa.array([f"https://x/{n}" for n in range(5)]))
    assert failures.failures_of(named)["error/truncated"].where == "https://x/1"
    pictures = SOME.append_column("image_id", pa.array([f"picture{n}" for n in range(5)]))
    assert failures.failures_of(pictures)["error/truncated"].where == "b"
    pictures = pictures.select(["image_id", "status", "error_kind", "error_message"])
    assert failures.failures_of(pictures)["error/truncated"].where == "picture1"
    others = pictures.rename_columns(["query_id", "status", "error_kind", "error_message"])
    assert failures.failures_of(others)["error/truncated"].where == "picture1"


def test_secrets_in_addresses_are_not_kept() -> None:
    signed = rows(("https://h/x.jpg?X-Amz-Signature=abc", "error", "http_403", "GET https://u:p@h/x.jpg failed"))
    assert failures.failures_of(signed) == {
        "error/http_403": Failure(1, "https://h/x.jpg", "GET https://h/x.jpg failed")
    }


def test_the_message_is_that_of_the_row_that_is_named() -> None:
    without = rows(("a", "error", "truncated", None), ("b", "error", "truncated", "ends early"))
    assert failures.failures_of(without) == {"error/truncated": Failure(2, "a", "")}


def test_what_is_kept_is_bounded() -> None:
    many = rows(*((f"{n}" * 400, "error", f"kind{n}", "x" * 9999) for n in range(500)))
    results = failures.failures_of(many)
    assert len(results) == failures.MOST_KINDS + 1
    assert sum(failure.rows for failure in results.values()) == 500
    assert max(len(failure.message) for failure in results.values()) == failures.MESSAGE_LENGTH
    assert max(len(failure.where) for failure in results.values()) == failures.WHERE_LENGTH
    failures.add(results, failures.failures_of(many))
    assert len(results) == failures.MOST_KINDS + 1
    assert sum(failure.rows for failure in results.values()) == 1000


def test_counts_of_units_keep_the_first_example() -> None:
    one, two = Counts(failures=failures.failures_of(SOME)), Counts(failures=failures.failures_of(SOME.slice(2)))
    one += Counts.from_json(two.to_json())
    assert one.failures["error/truncated"] == Failure(3, "b", "ends early")
    assert Counts.from_json(one.to_json()) == one


def test_the_end_of_a_run_names_them_the_most_frequent_first() -> None:
    counts = Counts(5, 5, failures=failures.failures_of(SOME))
    counts.status.update({"ok": 1, "error": 2, "missing": 1, "skipped": 1})
    lines = summary.reconciliation(counts.to_json()).splitlines()[2:]
    assert [line.strip() for line in lines] == [
        "2 error (truncated), for example b: ends early",
        "1 missing (gone), for example c: HTTP 404",
        "1 skipped, for example e",
    ]
    many = failures.to_json(failures.failures_of(rows(*((f"{n}", "error", f"kind{n}", "x") for n in range(30)))))
    assert failures.lines(many, most=10)[10:] == ["(+20 more kinds)"]
    assert len(failures.lines(many, most=30)) == 30
    frequent = failures.failures_of(rows(*((f"{n}", "error", kind, None) for n, kind in enumerate(["a", "b", "b"]))))
    assert failures.lines(failures.to_json(frequent), most=1)[0] == "2 error (b), for example 1"
