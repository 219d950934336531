"""Reader of the annotations that Century released, and of files of `release` in the same form.

A file has one row per picture and labeller, and one column per question. The columns are listed in the data set's
README: image_url, century_id, rating.method, rating.src, rating.rater_id, and the answers in rating.content,
rating.concept, rating.subregion, rating.time_period, rating.sensitive, rating.commemorative and rating.controversial.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from actors.status import STATUSES, Status
from jobs.annotation.batch_schemas import UNKNOWN_REPORTS
from jobs.annotation.reading import Reading
from jobs.annotation.tabular import Batches, ColumnMapping, csv_texts
from jobs.corpora import delimited
from jobs.errors import InputError
from jobs.store.writer import Rejects

URL, METHOD, SOURCE, RATER = "image_url", "rating.method", "rating.src", "rating.rater_id"
# column of each question of the rubric century_labels; image_type is not in the README of the released set
QUESTIONS = {
    "image_type": "rating.image_type",
    "content_type": "rating.content",
    "concept": "rating.concept",
    "sub_region": "rating.subregion",
    "time_period": "rating.time_period",
    "sensitive": "rating.sensitive",
    "controversial": "rating.controversial",
    "commemorative": "rating.commemorative",
}
OPTIONAL = {"condition": "rating.condition", "order": "rating.order", "sample": "rating.sample"}
STATUS = "rating.status"
# column=status of each answer that is not ok, separated by semicolons; other empty cells of the row were not asked
ENDINGS = "rating.endings"
GOLD = "gold"
PERSON = "human"  # in rating.method or rating.src, marks a person's row; all others are a model's
OF_MODEL = "json"  # method of models' rows whose method is not one of this project
METHODS = ("closed", "closed_sequence", "loglik", OF_MODEL, "encoder", "generate_then_score")


def read(uri: str, reading: Reading, reject: Rejects) -> Iterator[pa.Table]:
    """Yield the answers in a file in batches; bad rows go to `reject` with their line.

    If a row's method or source contains `human`, it is a person's and its rater is rating.rater_id; otherwise its rater
    is the model in rating.src. `columns.questions` replaces the columns of the questions.

    Raises:
        InputError: a column is missing.
    """
    dialect = delimited.read_dialect(uri, encoding=reading.encoding, delimiter=reading.delimiter)
    delimited.require_columns(uri, dialect.header, [URL, METHOD, SOURCE, RATER])
    questions = _questions(uri, dialect.header, reading)
    delimited.require_columns(uri, dialect.header, questions.values())
    further = {role: (name,) for role, name in OPTIONAL.items() if name in dialect.header}
    roles = {"item_id": (URL,), "rater": ("rater",), "method": ("method",)}
    mapping = ColumnMapping({**roles, **further}, questions)
    batches = Batches(uri, mapping, replace(reading, table="ratings", rater=None), reject)
    for lines, cells in csv_texts(uri, dialect, reading, reject):
        texts = cells | _labellers(cells)
        columns = {name: pa.array(texts[name], pa.string()) for name in mapping.read}
        rows = batches.convert(columns, pa.array(lines, pa.int64()))
        if STATUS in dialect.header:
            endings: Sequence[str | None] = texts.get(ENDINGS, [None] * len(lines))
            ended = dict(zip(lines, zip(texts[STATUS], endings, strict=True), strict=True))
            rows = _with_statuses(rows, questions, ended)
        yield rows if STATUS in dialect.header else rows.replace_schema_metadata(UNKNOWN_REPORTS)


def _with_statuses(
    rows: pa.Table, questions: Mapping[str, str], ended: Mapping[int, tuple[str, str | None]]
) -> pa.Table:
    """Return the answers that were asked for with their statuses: a cell's own, else that of its row.

    A person's report or skip is of the whole row; any other status is that of its empty cells.

    Args:
        questions: column of each question.
        ended: line -> the row's status, and the statuses of single answers; None: the file has none.
    """
    statuses, asked = [], []
    for row in rows.select(["question", "answer", "position"]).to_pylist():
        of_row, of_answers = ended[row["position"]]
        parts = (part.strip().partition("=") for part in (of_answers or "").split(";"))
        of_answer = {column.strip(): word.strip() for column, _, word in parts if word.strip()}
        word = of_answer.get(questions[row["question"]]) if of_answer else of_row.strip()
        applies = row["answer"] is None or of_answer or word in (Status.REPORTED, Status.SKIPPED)
        statuses.append(word if applies and word in STATUSES and word != Status.OK else None)
        asked.append(row["answer"] is not None or statuses[-1] is not None or of_answers is None)
    with_status = rows.set_column(rows.column_names.index("status"), "status", pa.array(statuses, pa.string()))
    return with_status.filter(pa.array(asked, pa.bool_()))


def _questions(uri: str, header: Sequence[str], reading: Reading) -> dict[str, str]:
    """Return the column of each question that both the rubric and the file have."""
    if reading.columns.questions:
        return dict(reading.columns.questions)
    question_sets = reading.questionnaire.sets if reading.questionnaire else {}
    questions = {name: column for name, column in QUESTIONS.items() if name in question_sets and column in header}
    if not questions:
        raise InputError(
            f"no column of answers ({', '.join(QUESTIONS.values())}) to questions of the rubric; its columns "
            f"are {', '.join(header)} (use rubric=century_labels, or columns.questions={{question: column}})",
            place=uri,
        )
    return questions


def _labellers(texts: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Return the rater and the method of each row."""
    raters, methods = [], []
    for method, source, rater in zip(texts[METHOD], texts[SOURCE], texts[RATER], strict=True):
        by_person = PERSON in f"{method} {source}".casefold()
        raters.append(rater if by_person else source)
        of_person = GOLD if method == GOLD else PERSON
        methods.append(of_person if by_person else method if method in METHODS else OF_MODEL)
    return {"rater": raters, "method": methods}
