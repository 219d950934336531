"""The typed rows have the columns of their schemas."""

from actors import rows, schemas
from actors.status import Status
from tests.cases import check_cases

SCHEMAS = {
    rows.ImageRow: schemas.IMAGES,
    rows.ResponseRow: schemas.RESPONSES,
    rows.RatingRow: schemas.RATINGS,
    rows.SpanRow: schemas.SPANS,
    rows.PreparedQuestionsRow: schemas.PREPARED_QUESTIONS,
    rows.PreparedPromptRow: schemas.PREPARED_PROMPTS,
}


def test_a_row_has_the_columns_of_its_schema() -> None:
    def check(row: type) -> None:
        assert set(row.__annotations__) == set(SCHEMAS[row].names)

    check_cases(check, list(SCHEMAS))


def test_every_typed_row_is_compared() -> None:
    assert set(rows.Row.__constraints__) == set(SCHEMAS)


def test_how_the_work_on_a_row_ended_is_passed_on() -> None:
    columns = rows.failed(rows.RatingRow, Status.SKIPPED, ("no_target", "no label"))
    assert columns == {"status": "skipped", "error_kind": "no_target", "error_message": "no label"}
    assert rows.ended(rows.ResponseRow, {**columns, "item_id": "a"}) == columns
