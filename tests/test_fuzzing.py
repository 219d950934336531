"""Untrusted text by the million: URLs, rubrics, answers of models, annotations, command lines, pictures.

What is returned fits its type, and what is refused is refused by our error with one line. A case is a valid input with
a few random changes, drawn from one number; those that once failed are at the end. `make torture` tries a million.
"""

import copy
import io
import json
import random
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf
from PIL import Image

from actors.fetching import wikimedia
from actors.fetching.net_safety import BlockedError, Rules
from actors.pictures import PictureError, decode_rgb, render
from actors.rubrics.instructions import Instruction
from actors.rubrics.parsing import parse_answers
from actors.rubrics.people import FreeText
from actors.rubrics.rubric import Rubric, identity
from actors.status import Status
from jobs.annotation import imported_rows, tabular
from jobs.annotation.import_config import ImportRatingsConfig
from jobs.annotation.questionnaire import rubric_questionnaire
from jobs.annotation.reading import Reading
from jobs.annotation.span_labels import SpanLabels
from jobs.annotation.tools import label_studio, prodigy
from jobs.errors import InputError
from jobs.runtime.command_line import cli
from jobs.runtime.configuration import config
from jobs.runtime.configuration.config_files import CONF
from jobs.runtime.selection import exclusions
from jobs.store.writer import Reject
from tests import reliability
from tests.cases import check_cases
from tests.jobs.annotation import tool_exports
from tests.jobs.annotation.tool_exports import Act

pytestmark = [
    pytest.mark.fuzz,
    pytest.mark.timeout(6 * 3600),
    pytest.mark.filterwarnings("ignore::UserWarning:PIL"),  # of damaged metadata
]
SEEDS = st.integers(0, 2**48)
AT_ONCE = 10  # cases of one seed: Hypothesis takes a millisecond for each
WORDS = (
    *r"""0 -1 1e999 nan null true [ ] { } {{ ${ % %00 %82 %zz %25 ../ // : @ # ? = , ; " ' \ é 猫 🐈""".split(),
    *("[::1]", "127.0.0.1", "thumb", "px-", "File:", "picture", "item_id"),
    *("", " ", "\n", "\r\n", "\t", "\0", "\x1b[2J", "\ufeff", "\u202e", "\ud7ff", "\ud83d", "e\u0301"),
    *("\u2028", "\x85", "\udce9", "ß", "თ", "caf\xe9", "true", "selected", "ranker", "taxonomy", "a\r\nb"),
    *("9" * 30, "9" * 5000, "a" * 300, "[" * 5000),
)
VALUES: tuple[Any, ...] = (
    *(
        None,
        True,
        False,
        0,
        -1,
        1,
        2**63,
        10**30,
        0.5,
        1e16,
        2.0,
        float("nan"),
        float("inf"),
        [],
        {},
        [[]],
        [None],
        {"": None},
    ),
    *WORDS,
)
URLS = (
    "https://upload.wikimedia.org/wikipedia/commons/thumb/a/a9/Example.jpg/640px-Example.jpg",
    "https://upload.wikimedia.org/wikipedia/commons/archive/a/a9/20200101000000%21Example.jpg",
    "https://upload.wikimedia.org/wikipedia/en/a/a9/B%C3%A9r%C3%A9nice_%28%22x%22%29.svg",
    "//commons.wikimedia.org/wiki/Special:FilePath/Example.tif?width=300&page=2",
    "http://user:secret@pictures.example:8443/a/b.png?size=2#part",
)


CASES: Counter[str] = Counter()
FAILURES: Counter[str] = Counter()


@pytest.fixture(scope="module", autouse=True)
def recorded() -> Iterator[None]:
    yield
    for name, cases in CASES.items():
        reliability.record("random cases", input=name.replace("_", " "), cases=cases, failures=FAILURES[name])


@lru_cache
def shipped(group: str) -> list[Any]:
    """Return the contents of the files of a group of conf/."""
    return [OmegaConf.to_container(OmegaConf.load(path)) for path in sorted((CONF / group).glob("*.yaml"))]


def draws(seed: int) -> Iterator[random.Random]:
    """Yield a generator for each case."""
    return (random.Random(AT_ONCE * seed + number) for number in range(AT_ONCE))


def changed_text(text: str, draw: random.Random) -> str:
    """`text` with one to four changes: a piece left out, repeated, replaced by a word, or characters swapped."""
    for _ in range(draw.randint(1, 4)):
        first, last = sorted(draw.randint(0, len(text)) for _ in range(2))
        last = min(last, first + draw.choice((0, 1, 3, 20)))
        piece = draw.choice(
            (draw.choice(WORDS), text[first:last] * 2, text[first:last][::-1], chr(draw.randint(0, 0xD7FF)))
        )
        text = text[:first] + piece + text[last:]
    return text


def changed(value: Any, draw: random.Random) -> Any:
    """JSON values with one to four changes: an entry left out, repeated, renamed, or replaced by another value."""
    value = copy.deepcopy(value)
    for _ in range(draw.randint(1, 4)):
        holder, key = draw.choice(list(places(value)) or [([value], 0)])
        inner = holder[key]
        choice = draw.randrange(5)
        if choice == 0:
            del holder[key]
        elif choice == 1 and isinstance(holder, dict):
            holder[draw.choice(WORDS)] = holder.pop(key)
        elif choice == 2 and isinstance(holder, list):
            holder.insert(key, copy.deepcopy(inner))
        elif isinstance(inner, str) and choice == 3:
            holder[key] = changed_text(inner, draw)
        else:
            holder[key] = copy.deepcopy(draw.choice(VALUES))
    return value


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each container in `value` with each of its keys."""
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in list(entries):
        yield value, key
        yield from places(inner)


def storable(text: str) -> str:
    """`text` as a UTF-8 file can have it."""
    return text.encode(errors="replace").decode()


def refused(*kinds: type[Exception], call: Callable[[], Any]) -> Any:
    """Return what `call` returns, or None if it raises one of `kinds`."""
    try:
        return call()
    except kinds:
        return None


def urls(draw: random.Random) -> None:
    url = storable(changed_text(draw.choice(URLS), draw))
    file = refused(wikimedia.NoThumbnailError, call=lambda: wikimedia.parse(url))
    assert wikimedia.is_wikimedia(url) in (True, False)
    (wikimedia.why_no_thumbnail(url) or "").encode()
    if file is not None:
        width, original = draw.choice((None, 1, 300, 5000)), draw.choice((None, 0, 299, 10**9))
        asked = refused(
            wikimedia.NoThumbnailError, ValueError, call=lambda: wikimedia.request_url(file, width, original)
        )
        again = wikimedia.parse(file.original_url())
        names = {one.name.encode(errors="surrogateescape") for one in (file, again)}
        assert "%" in file.name or len(names) == 1  # titles cannot contain %XX
        if asked is not None:
            assert Rules(("upload.wikimedia.org", "thumb.wikimedia.org", "*.wikimedia.org")).check_url(asked)
    place = refused(
        BlockedError, ValueError, call=lambda: Rules(("pictures.example:8443", "*.wikimedia.org")).check_url(url)
    )
    if place is not None:
        assert place == ("pictures.example", 8443) or (place[0].endswith(".wikimedia.org") and place[1] == 443)
    if url.strip():
        assert all(isinstance(mark, str) for mark in exclusions.marks_of(url))


def rubrics(draw: random.Random) -> None:
    data = changed(draw.choice(shipped("rubric")), draw)
    rejected = refused(ValueError, call=lambda: Rubric.from_dict(data))
    if rejected is not None:
        for layout in rejected.layouts:
            assert 0 <= rejected.split(layout) < len(rejected.layouts[layout])
            rejected.picture_count(layout)
        assert identity(rejected)
        assert rubric_questionnaire(rejected).names or rejected.asks_own_questions


def prompts_and_span_labels(draw: random.Random) -> None:
    rejected = refused(ValueError, call=lambda: Instruction.from_dict(changed(draw.choice(shipped("prompt")), draw)))
    assert rejected is None or rejected.name
    refused(ValueError, call=lambda: SpanLabels.from_dict(changed(draw.choice(shipped("span_labels")), draw)))


RUBRIC = Rubric.from_dict(shipped("rubric")[2])
ANSWER = {question.name: question.answers[-1].value for question in RUBRIC.questions}


def answers_of_models(draw: random.Random) -> None:
    text = f"I think:\n```json\n{json.dumps(changed(ANSWER, draw), default=str)}\n```"
    text = changed_text(text, draw) if draw.random() < 0.7 else text
    answers = parse_answers(text, RUBRIC.questions)
    assert list(answers) == list(ANSWER)
    for question in RUBRIC.questions:
        parsed = answers[question.name]
        assert (parsed.status is Status.OK) == (parsed.answer is not None)
        assert parsed.answer is None or parsed.answer in question.answers
        assert (parsed.message or "").isprintable()


SPAN_LABELS = SpanLabels.from_dict(shipped("span_labels")[0])
QUESTIONNAIRE = rubric_questionnaire(RUBRIC)
FREE_TEXTS = (FreeText("remark", "Remark"),)
TEXTS = {"generated": "A dog 🐕 here.", "reference": "Ein Hund."}
TASK = {"data": {"item_id": "i1", "rubric": RUBRIC.name, "generated_id": "g", "reference_id": "r", **TEXTS}}
MARKED = {"mistakes": [(2, 5, "o")], "omissions": [(0, 3, "o")]}
ACTS = [
    Act("anna", chosen=dict.fromkeys(ANSWER, "3"), marked=MARKED, comment="é", written={"remark": "none"}),
    Act("bo", skipped=True, reported=True),
]
OPTIONS = [{"id": str(number), "text": f"option {number}"} for number in range(1, 6)]
DONE = {"item_id": "i1", "_annotator_id": "p-anna", "_session_id": "p-anna", "_timestamp": 1780000000}
PRODIGY: list[dict[str, Any]] = [
    {
        **DONE,
        "answer": "accept",
        "accept": ["3"],
        "options": OPTIONS,
        "question": next(iter(ANSWER)),
        "rubric": RUBRIC.name,
    },
    {**DONE, "answer": "accept", "text": TEXTS["generated"], "spans": [{"start": 2, "end": 5, "label": "o"}]},
    {**DONE, "answer": "accept", "free_texts": ["remark"], "remark": "none"},
    {"item_id": "i2", "_annotator_id": "p-bo", "answer": "ignore", "accept": []},
]
CSV = "item_id,rater,question,value,comment\n" + "".join(
    f'i{n},anna,{question},{value},"a ""b"", c"\n' for n in range(3) for question, value in ANSWER.items()
)


def imported(reader: Any, file: Path, table: str) -> None:
    rejects: list[Reject] = []
    if reader is tabular:
        defaults = ImportRatingsConfig(input="x", out="y")
        batches = tabular.read_csv(
            str(file), Reading(table="ratings", columns=defaults.columns, questionnaire=QUESTIONNAIRE), rejects.append
        )
    else:
        asked = QUESTIONNAIRE if table == "ratings" else None
        reading = Reading(table, questionnaire=asked, span_labels=SPAN_LABELS, free_texts=FREE_TEXTS)
        batches = reader.read(str(file), reading, rejects.append)
    for raw in batches:
        if table in ("remarks", "raters"):
            continue
        if table == "spans":
            span_rows = imported_rows.span_rows(raw, method="human", condition="")
        else:
            span_rows = imported_rows.rating_rows(raw, QUESTIONNAIRE, method="human", condition="")
        assert set(span_rows["status"].to_pylist()) <= set(Status)
    for reject in rejects:
        assert reject.reason
        assert reject.message


@lru_cache
def scratch() -> "tempfile.TemporaryDirectory[str]":
    return tempfile.TemporaryDirectory()


def imports_of_annotations(draw: random.Random) -> None:
    reader = draw.choice((label_studio, prodigy, tabular))
    if reader is label_studio:
        text = json.dumps(changed(tool_exports.label_studio([TASK], [ACTS]), draw))
    elif reader is prodigy:
        text = "".join(json.dumps(line) + "\n" for line in (changed(PRODIGY, draw) or [{}]))
    else:
        text = changed_text(CSV, draw)
    text = changed_text(text, draw) if draw.random() < 0.3 else text
    file = Path(scratch().name) / "export"
    data = text.encode("utf-8", "surrogatepass")
    if draw.random() < 0.1:
        at = draw.randrange(len(data) + 1)
        data = data[:at] + draw.randbytes(draw.randint(0, 4)) + data[at + draw.randint(0, 4) :]
    file.write_bytes(data)
    table = "ratings" if reader is tabular else draw.choice(("ratings", "spans", "remarks", "raters"))
    refused(InputError, call=lambda: imported(reader, file, table))


COMMANDS = {
    "judge": "out=R/x|input=R/images|records=R/a|max_tokens=20|retry=[error]|rubric.answer_start=A|model.dtype=auto",
    "import_ratings": "input=a.csv|out=R/r|name=study|answers=[yes,no]|columns.questions={a: b}|delimiter=;",
}


def command_lines(draw: random.Random) -> None:
    job = draw.choice(list(COMMANDS))
    overrides = COMMANDS[job].split("|")
    for _ in range(draw.randint(1, 2)):
        at = draw.randrange(len(overrides))
        overrides[at] = changed_text(overrides[at], draw)
    schema = cli.job(job).schema
    rejected = refused(InputError, call=lambda: config.load(job, schema, overrides))
    assert rejected is None or isinstance(rejected, schema)


@lru_cache
def pictures() -> list[bytes]:
    draw = np.random.default_rng(1)
    pixels = draw.integers(0, 255, (24, 32, 4), np.uint8)
    files = []
    for form, mode in (
        ("JPEG", "RGB"),
        ("PNG", "RGBA"),
        ("GIF", "P"),
        ("WEBP", "RGB"),
        ("TIFF", "RGB"),
        ("BMP", "RGB"),
        ("PPM", "L"),
    ):
        file = io.BytesIO()
        Image.fromarray(pixels).convert("RGB").convert(mode).save(file, form)
        files.append(file.getvalue())
    return files


def pictures_of_any_bytes(draw: random.Random) -> None:
    data = bytearray(draw.choice(pictures()))
    for _ in range(draw.randint(1, 8)):
        at = draw.randrange(len(data)) if draw.random() < 0.5 else draw.randrange(min(64, len(data)))
        data[at : at + draw.choice((0, 1, 1, 4))] = draw.randbytes(draw.choice((0, 1, 1, 4)))
        if not data:
            break
    # A bound on pixels keeps the process of this test small; fetchers decode in children with bounds of their own.
    rejected = refused(PictureError, call=lambda: decode_rgb(bytes(data), max_pixels=1 << 20))
    assert rejected is None or (rejected.mode == "RGB" and min(rejected.size) > 0)
    if draw.random() < 0.2:
        rejected = refused(PictureError, call=lambda: render(bytes(data), width=16, max_pixels=1 << 20))
        assert rejected is None or rejected.facts.width <= max(16, rejected.facts.width if rejected.data is None else 0)


@pytest.mark.parametrize(
    "case", [urls, rubrics, prompts_and_span_labels, answers_of_models, imports_of_annotations, pictures_of_any_bytes]
)
@given(seed=SEEDS)
def test_what_cannot_be_trusted(case: Callable[[random.Random], None], seed: int) -> None:
    for draw in draws(seed):
        CASES[case.__name__] += 1
        FAILURES[case.__name__] += 1
        case(draw)
        FAILURES[case.__name__] -= 1


@settings(max_examples=max(settings().max_examples // 50, 5))  # composing a configuration takes long
@given(SEEDS)
def test_command_lines(seed: int) -> None:
    for draw in draws(seed):
        command_lines(draw)


@pytest.mark.parametrize(
    "url",
    [
        "https://upload.wikimedia.org/wikipedia/en/a/a9/B.%82svg",  # the reason holds a byte that is not UTF-8
        "//commons.wikimedia.org/wiki/Special:FilePath/\u202e.tif",  # a name that is only an extension
        "http://user[::1]:secret@pictures.example:84[[/a",  # urlsplit takes it, and not its parts put together
    ],
)
def test_a_url_that_once_failed(url: str) -> None:
    assert (wikimedia.why_no_thumbnail(url) or "").encode()
    assert exclusions.marks_of(url)


def test_an_export_that_once_failed(tmp_path: Path) -> None:
    exports: list[tuple[Any, Any]] = [
        (label_studio, [{**TASK, "annotations": [{"completed_by": "a", "result": [
            {"from_name": "mistakes", "value": {"start": 0, "end": 1, "labels": 0.5}}]}]}]),
        (label_studio, [{**TASK, "annotations": [{"completed_by": "a", "updated_at": {"": None}, "result": []}]}]),
        (label_studio, [{"data": {**TASK["data"], "generated": "half \ud83d"}, "annotations": [
            {"completed_by": "a", "result": []}]}]),
        (label_studio, "[" * 100_000),
        (prodigy, {**DONE, "answer": "accept", "text": "x", "spans": 0.5}),
        (prodigy, {**DONE, "answer": "accept", "question": "sensitive", "options": 7, "accept": ["3"]}),
        (prodigy, {**DONE, "answer": "accept", "free_texts": 7}),
        (prodigy, {**DONE, "item_id": "half \ud83d", "answer": "accept", "question": "sensitive", "accept": ["3"]}),
        (prodigy, json.dumps(PRODIGY[0]) + "\n" + "[" * 100_000),
        (prodigy, json.dumps(PRODIGY[0]) + "\n" + json.dumps({**PRODIGY[0], "item_id": "\ud83d"}, ensure_ascii=False)),
    ]  # fmt: skip

    def check(table: str, reader: Any, text: Any) -> None:
        file = tmp_path / "export"
        file.write_bytes((text if isinstance(text, str) else json.dumps(text)).encode("utf-8", "surrogatepass"))
        refused(InputError, call=lambda: imported(reader, file, table))

    check_cases(check, [(table, *export) for table in ("ratings", "spans", "remarks") for export in exports])


def test_a_template_with_thousands_of_open_brackets_is_refused() -> None:
    data = copy.deepcopy(shipped("rubric")[2])
    name = next(iter(data["parts"]))
    data["parts"][name] += "{{" + "[" * 5000
    with pytest.raises(ValueError, match="nested too deeply"):
        Rubric.from_dict(data)


def test_span_labels_with_a_nested_list_of_texts_are_refused() -> None:
    with pytest.raises(ValueError, match="texts: "):
        SpanLabels.from_dict({**shipped("span_labels")[0], "texts": [["generated"]]})
