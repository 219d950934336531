"""Items that failed because of the run, and when a network without answers is the run's fault."""

from typing import Any

import pyarrow as pa

from jobs.store.failures import Failure
from jobs.store.item_errors import LEAST_UNREACHED, count_errors

SCHEMA = {"image_id": pa.string(), "status": pa.string(), "error_kind": pa.string(), "error_message": pa.string(),
          "attempts": pa.int32()}  # fmt: skip


def rows(*groups: tuple[int, dict[str, Any]]) -> pa.Table:
    listed = [group for count, group in groups for _ in range(count)]
    numbered = [{"image_id": f"i{n}", **row} for n, row in enumerate(listed)]
    return pa.Table.from_pylist(numbered, schema=pa.schema(SCHEMA))


UNREACHED = {"status": "error", "error_kind": "dns", "error_message": "no address", "attempts": 3}
MISSING = {"status": "missing", "attempts": 1}
NOT_ASKED = {"status": "missing", "attempts": 0}


def test_a_network_without_any_answer_is_the_runs_fault() -> None:
    assert count_errors(rows((LEAST_UNREACHED, UNREACHED))).of_unit().failed == LEAST_UNREACHED
    assert count_errors(rows((LEAST_UNREACHED - 1, UNREACHED))).of_unit().failed == 0
    assert count_errors(rows((LEAST_UNREACHED, UNREACHED), (1, MISSING))).of_unit().failed == 0  # a host answered
    counts = count_errors(rows((LEAST_UNREACHED, UNREACHED), (5, NOT_ASKED)))
    assert (counts.items, counts.answered, counts.of_unit().failed) == (LEAST_UNREACHED + 5, 0, LEAST_UNREACHED)
    total = count_errors(rows((5, UNREACHED)))
    total += count_errors(rows((LEAST_UNREACHED - 5, UNREACHED)))
    assert total.of_unit().failed == LEAST_UNREACHED


def test_an_item_counts_once_and_without_attempts_there_is_no_network() -> None:
    errors = rows((2, UNREACHED), (1, UNREACHED | {"error_kind": "no_memory"})).drop_columns(["attempts"])
    twice = pa.concat_tables([errors, errors])
    counts = count_errors(twice)
    assert (counts.items, counts.failed, counts.of_network) == (3, 1, {})
    assert count_errors(errors.select(["image_id", "status"])).items == 0


def test_an_example_is_the_picture_or_its_address_cut_off() -> None:
    failed = {"status": "error", "error_kind": "no_memory", "error_message": "m" * 999, "attempts": 1}
    named = rows((1, failed))
    url = pa.array(["https://h/" + "u" * 999])
    for batch, where in ((named, "i0"), (named.append_column("source_url", url), "https://h/" + "u" * 290)):
        (failure,) = count_errors(batch).of_run.items()
        assert failure == ("error/no_memory", Failure(1, where, "m" * 200))
