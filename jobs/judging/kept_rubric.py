"""The rubric of a table of ratings, kept next to its rows: `_run/rubric.json`, its hash in every footer.

Reports read question texts, labels and scales from this file and never from `conf/`, which may have changed since.
Its content:

    {"kind": "rubric",            rubric, answers (remine import_ratings answers=), zero_shot_template, or prompt
                                  (remine loglik)
     "name": "century_labels",    column `rubric` of the ratings
     "sha256": "…",               see `KeptRubric.sha256`
     "questions": [{"name": …, "text": …, "note": …, "scale": "ordinal", "answers": [{"value", "label", "score"}]}],
     "data": {…}}                 the whole rubric, template or prompt, as parsed from its YAML file

A question named `*` applies to every question. The scale `continuous` is for unbounded numbers.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from actors.rubrics import rubric_forms
from actors.rubrics.instructions import Instruction
from actors.rubrics.rubric import Rubric
from actors.rubrics.rubric_questions import ANY, Answer
from jobs.errors import InputError
from jobs.store.files import locations
from jobs.store.reading import TableSource
from jobs.store.run_files import read_json, run_uri
from jobs.store.table_faults import Fault

FILE = "rubric.json"  # in _run/
NAME, HASH = "rubric", "rubric_sha256"  # keys in a table's metadata, after the prefix `remine.`
TEMPLATE, PROMPT = "zero_shot_template", "prompt"  # kinds that ask in words other than a rubric's
ORDINAL, NOMINAL, CONTINUOUS = "ordinal", "nominal", "continuous"


@dataclass(frozen=True)
class KeptQuestion:
    """A question and its allowed answers, in order; `scale` is ordinal, nominal or continuous."""

    name: str
    text: str
    note: str
    scale: str
    answers: tuple[Answer, ...]

    @property
    def bounds(self) -> tuple[float, float] | None:
        """Return the lowest and the highest score; None for categories and unbounded numbers."""
        scores = [answer.score for answer in self.answers if answer.score is not None]
        return (min(scores), max(scores)) if scores else None


@dataclass(frozen=True)
class KeptRubric:
    """The rubric that a table's raters answered, as the table stores it."""

    kind: str
    name: str
    questions: tuple[KeptQuestion, ...]
    data: Mapping[str, Any] = field(default_factory=dict)

    @property
    def sha256(self) -> str:
        """Return the SHA-256 (64 hexadecimal digits) of everything that determines what a rating means.

        The hash covers the rubric's name and, of every question, its name, text, note, scale and answers with value,
        label, score and order. It does not cover what changes how a question is asked but not what an answer means: the
        parts and layouts of prompts, the context fields, the variant for people (guidance, options, examples), the
        targets, the version, the source and the order of the questions. Ratings by people and by models with the same
        rubric therefore have the same hash, and so have two layouts; the identity of each table distinguishes their
        prompts.
        """
        meaning = {"name": self.name, "questions": [asdict(q) for q in sorted(self.questions, key=lambda q: q.name)]}
        canonical = json.dumps(meaning, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()

    @property
    def sensitive(self) -> bool:
        """Whether the pictures may disturb people."""
        return bool(self.data.get("sensitive"))

    @property
    def metadata(self) -> dict[str, str]:
        """Return the entries for the metadata of the table and of its footers."""
        return {NAME: self.name, HASH: self.sha256}

    @property
    def files(self) -> dict[str, bytes]:
        """Return the files to store in the table's `_run/`, by name."""
        content: dict[str, Any] = {"kind": self.kind, "name": self.name, "sha256": self.sha256, "data": dict(self.data)}
        content["questions"] = [asdict(question) for question in self.questions]
        return {FILE: json.dumps(content, sort_keys=True, ensure_ascii=False, indent=1).encode()}

    def question(self, name: str) -> KeptQuestion | None:
        """Return the question of that name, or the question that applies to every question."""
        by_name = {question.name: question for question in self.questions}
        return by_name.get(name, by_name.get(ANY))


def of_rubric(rubric: Rubric, data: Mapping[str, Any]) -> KeptRubric:
    """Return what to keep of a rubric from `conf/rubric` or a user's file; `data` is that file's content."""
    questions = (KeptQuestion(q.name, q.text, q.note, q.scale, q.answers) for q in rubric.questions)
    return KeptRubric("rubric", rubric.name, tuple(questions), data)


def full_data(kept: KeptRubric) -> Mapping[str, Any]:
    """Return the content of the rubric's file in its full form, with the parts of prompts that a short form leaves out.

    Content that is not a rubric for models is returned unchanged.
    """
    return rubric_forms.completed(kept.data) if kept.kind == "rubric" and kept.data.get("questions") else kept.data


def of_answers(name: str, values: Sequence[str], *, ordinal: bool) -> KeptRubric:
    """Return what to keep of answers without a rubric, the same for every question (`jobs.import_ratings answers=`)."""
    answers = tuple(Answer(value, value, float(value) if ordinal else None) for value in values)
    return KeptRubric("answers", name, (KeptQuestion(ANY, "", "", ORDINAL if ordinal else NOMINAL, answers),))


def of_levels(
    name: str, question: str, text: str, levels: Iterable[tuple[str, str, float]], data: Mapping[str, Any]
) -> KeptRubric:
    """Return what to keep of a template of `zero_shot`.

    Its sentence becomes the question's text; its levels (value, phrase, score) become the answers.
    """
    answers = tuple(Answer(value, phrase, score) for value, phrase, score in levels)
    return KeptRubric(TEMPLATE, name, (KeptQuestion(question, text, "", ORDINAL, answers),), data)


def of_prompt(instruction: Instruction, question: str, data: Mapping[str, Any]) -> KeptRubric:
    """Return what to keep of a prompt that `loglik` completes with labels; its scale is continuous."""
    text = "\n\n".join(instruction.parts[name].strip() for name in instruction.order if name in instruction.parts)
    kept_question = KeptQuestion(question, f"{text}\n\n{instruction.start}", "", CONTINUOUS, ())
    return KeptRubric(PROMPT, instruction.name, (kept_question,), data)


def read_kept(source: TableSource) -> KeptRubric | None:
    """Return the rubric that the table `source` keeps; None if it keeps none.

    Raises:
        InputError: the file is damaged, or its hash differs from that in the table's footers.
    """
    uri = locations.join(source.uri, "_run", FILE)
    try:
        content = read_json(uri)
    except FileNotFoundError:
        return None
    try:
        questions = tuple(_question(entry) for entry in content["questions"])
        kept = KeptRubric(str(content["kind"]), str(content["name"]), questions, dict(content["data"]))
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"damaged, not the rubric of a table of ratings ({error!r})", place=uri) from error
    expected = source.metadata.get(f"remine.{HASH}", kept.sha256)
    if {content.get("sha256"), expected} != {kept.sha256}:
        raise InputError(
            f"changed since the ratings were written: its SHA-256 is {kept.sha256}, in the table's footers "
            f"{expected}; restore the file",
            place=uri,
        )
    return kept


def _question(entry: Mapping[str, Any]) -> KeptQuestion:
    scale = entry["scale"]
    if scale not in (ORDINAL, NOMINAL, CONTINUOUS):
        raise ValueError(f"scale {scale!r}")
    answers = (
        Answer(a["value"], a["label"], None if a["score"] is None else float(a["score"])) for a in entry["answers"]
    )
    return KeptQuestion(entry["name"], entry["text"], entry["note"], scale, tuple(answers))


@dataclass(frozen=True)
class Rubrics:
    """The rubrics of several tables of ratings.

    Attributes:
        by_name: what is kept of each rubric, by the rubric's name.
        without: URIs of the tables that keep no rubric.
    """

    by_name: Mapping[str, KeptRubric]
    without: tuple[str, ...] = ()

    @property
    def blur(self) -> bool:
        """Whether pages blur pictures: a rubric calls them sensitive, or no rubric says what they are."""
        return not self.by_name or any(kept.sensitive for kept in self.by_name.values())

    def question(self, rubric: str, question: str) -> KeptQuestion | None:
        """Return the question; None if no table keeps its rubric or the rubric has no such question."""
        return self.by_name[rubric].question(question) if rubric in self.by_name else None

    def scale(self, rubric: str, question: str) -> tuple[tuple[float, float] | None, str]:
        """Return the lowest and highest score, or None and the reason why they are unknown."""
        if rubric not in self.by_name:
            return None, f"the scale is not known: no table of ratings keeps its rubric {rubric!r} (_run/{FILE})"
        if (kept := self.question(rubric, question)) is None:
            return None, f"the scale is not known: rubric {rubric!r} has no question {question!r}"
        if kept.scale == CONTINUOUS:
            return None, "the scores are unbounded numbers"
        return kept.bounds, f"in rubric {rubric!r} the answers to {question!r} have no scores"


def read_rubrics(sources: Sequence[TableSource]) -> Rubrics:
    """Read the rubrics that tables of ratings keep.

    A zero-shot template and a prompt of `loglik` may have the name of a rubric, so that encoders and likelihoods are
    compared with people. They ask in other words: a template must have the rubric's scores, and the scores of a prompt
    are unbounded. The rubric then determines the texts, the labels and the scale.

    Raises:
        InputError: two tables have different rubrics with the same name; or as `read_kept`.
    """
    first: dict[str, tuple[str, KeptRubric | None, str]] = {}  # rubric -> its hash, what is kept, the first table
    without = []
    kept_of = [(source, read_kept(source)) for source in sources]
    for source, kept in sorted(kept_of, key=lambda entry: _rank(entry[1])):
        if kept is None:
            without.append(source.uri)
        for name, digest in _names_and_hashes(source, kept):
            other, anchor, uri = first.setdefault(name, (digest, kept, source.uri))
            if other != digest and not _asks_the_same(kept, anchor):
                why = (
                    f"it and {source.uri} have different rubrics called {name!r} (questions, answers, labels or "
                    "scores differ); report them separately, or rename one rubric (for remine import_ratings "
                    "answers= with name=) and write its ratings again"
                )
                raise InputError(why, key="ratings", value=uri)
    return Rubrics({kept.name: kept for _, kept, _ in first.values() if kept}, tuple(without))


def _rank(kept: KeptRubric | None) -> int:
    """Return the precedence of a kept rubric in determining the meaning of a name."""
    return {TEMPLATE: 1, PROMPT: 2}.get(kept.kind, 0) if kept else 3


def _asks_the_same(kept: KeptRubric | None, anchor: KeptRubric | None) -> bool:
    """Return whether a template or prompt asks questions of the rubric `anchor`, a template with the same scores."""
    if kept is None or anchor is None or kept.kind not in (TEMPLATE, PROMPT) or anchor.kind == kept.kind:
        return False
    pairs = [(question, anchor.question(question.name)) for question in kept.questions]
    return all(other and (kept.kind == PROMPT or _scores(question) == _scores(other)) for question, other in pairs)


def _scores(question: KeptQuestion) -> list[tuple[str, float | None]]:
    return [(answer.value, answer.score) for answer in question.answers]


def _names_and_hashes(source: TableSource, kept: KeptRubric | None) -> Iterator[tuple[str, str]]:
    """Yield the rubric's name and hash from the table's footers or else the kept file; nothing without a rubric."""
    name, digest = (source.metadata.get(f"remine.{key}") for key in (NAME, HASH))
    if name and digest:
        yield name, digest
    elif kept is not None:
        yield kept.name, kept.sha256


def rubric_faults(source: TableSource) -> Iterator[Fault]:
    """Yield a fault if the footers mention a rubric that `_run/` lacks or has with other content."""
    file = run_uri(source.uri, FILE)
    try:
        kept = read_kept(source)
    except InputError as error:
        yield Fault(file, error.why if error.place == file else str(error), file)
        return
    if kept is None and f"remine.{HASH}" in source.metadata:
        yield Fault(source.uri, f"no _run/{FILE}, although its footers mention the rubric", missing=True)
