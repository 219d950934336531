"""The rubric of a table of ratings, kept next to its rows: `_run/rubric.json`, its hash in every footer.

Reports read question texts, labels and scales from here and never from today's `conf/`, which may have changed since.
The file reads

    {"kind": "rubric",            rubric, answers (of jobs.import_ratings answers=), zero_shot_template, or prompt
                                  (of jobs.loglik)
     "name": "century_labels",    column `rubric` of the ratings
     "sha256": "…",               see `KeptRubric.sha256`
     "questions": [{"name": …, "text": …, "note": …, "scale": "ordinal", "answers": [{"value", "label", "score"}]}],
     "data": {…}}                 the whole rubric, template or prompt as its YAML file reads

A question named `*` stands for every question. `continuous` is the scale of numbers without a lowest and a highest.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from actors.vlm.instructions import Instruction
from actors.vlm.rubric import Answer, Rubric
from jobs.errors import InputError
from jobs.store import locations
from jobs.store.reading import TableSource
from jobs.store.run_files import read_json

FILE = "rubric.json"  # in _run/
NAME, HASH = "rubric", "rubric_sha256"  # in a table's metadata, after `remine.`
ANY = "*"  # the name of a question that stands for every question
ORDINAL, NOMINAL, CONTINUOUS = "ordinal", "nominal", "continuous"


@dataclass(frozen=True)
class KeptQuestion:
    """A question and its allowed answers in their order; `scale` is ordinal, nominal or continuous."""

    name: str
    text: str
    note: str
    scale: str
    answers: tuple[Answer, ...]

    @property
    def bounds(self) -> tuple[float, float] | None:
        """The lowest and the highest score; None for categories and for numbers without bounds."""
        scores = [answer.score for answer in self.answers if answer.score is not None]
        return (min(scores), max(scores)) if scores else None


@dataclass(frozen=True)
class KeptRubric:
    """What a table of ratings keeps of the rubric it was made with."""

    kind: str
    name: str
    questions: tuple[KeptQuestion, ...]
    data: Mapping[str, Any] = field(default_factory=dict)

    @property
    def sha256(self) -> str:
        """SHA-256 (64 hexadecimal digits) of what the ratings mean.

        That is the name, and of every question its name, text, note, scale and answers with value, label, score and
        order. It leaves out what changes how a question is put but not what an answer says: the parts and layouts of
        prompts, the context fields, the people's variant (guidance, options, examples), the targets, the version, the
        source and the order of the questions. People and models asked by one rubric therefore have one hash, and so
        have two layouts; prompts are told apart by each table's own identity.
        """
        meaning = {"name": self.name, "questions": [asdict(q) for q in sorted(self.questions, key=lambda q: q.name)]}
        canonical = json.dumps(meaning, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()

    @property
    def metadata(self) -> dict[str, str]:
        """What the table's metadata and footers say of it."""
        return {NAME: self.name, HASH: self.sha256}

    @property
    def files(self) -> dict[str, bytes]:
        """What is stored in the table's `_run/`."""
        held: dict[str, Any] = {"kind": self.kind, "name": self.name, "sha256": self.sha256, "data": dict(self.data)}
        held["questions"] = [asdict(question) for question in self.questions]
        return {FILE: json.dumps(held, sort_keys=True, ensure_ascii=False, indent=1).encode()}

    def question(self, name: str) -> KeptQuestion | None:
        """The question of that name, or the one that stands for every question."""
        by_name = {question.name: question for question in self.questions}
        return by_name.get(name, by_name.get(ANY))


def of_rubric(rubric: Rubric, data: Mapping[str, Any]) -> KeptRubric:
    """A rubric of `conf/rubric` or of a user's file; `data` is that file's content."""
    questions = (KeptQuestion(q.name, q.text, q.note, q.scale, q.answers) for q in rubric.questions)
    return KeptRubric("rubric", rubric.name, tuple(questions), data)


def of_answers(name: str, values: Sequence[str], *, ordinal: bool) -> KeptRubric:
    """Allowed answers without a rubric, the same for every question (`jobs.import_ratings answers=`)."""
    answers = tuple(Answer(value, value, float(value) if ordinal else None) for value in values)
    return KeptRubric("answers", name, (KeptQuestion(ANY, "", "", ORDINAL if ordinal else NOMINAL, answers),))


def of_levels(
    name: str, question: str, text: str, levels: Iterable[tuple[str, str, float]], data: Mapping[str, Any]
) -> KeptRubric:
    """A template of `zero_shot`: its sentence is the question's text, its levels (value, phrase, score) the answers."""
    answers = tuple(Answer(value, phrase, score) for value, phrase, score in levels)
    return KeptRubric("zero_shot_template", name, (KeptQuestion(question, text, "", ORDINAL, answers),), data)


def of_prompt(instruction: Instruction, question: str, data: Mapping[str, Any]) -> KeptRubric:
    """A prompt behind which labels are scored: log-likelihoods, a scale without a lowest and a highest score."""
    text = "\n\n".join(instruction.parts[name].strip() for name in instruction.order if name in instruction.parts)
    asked = KeptQuestion(question, f"{text}\n\n{instruction.start}", "", CONTINUOUS, ())
    return KeptRubric("prompt", instruction.name, (asked,), data)


def read_kept(source: TableSource) -> KeptRubric | None:
    """The rubric that the table `source` keeps; None if it keeps none.

    Raises:
        InputError: the file is damaged, or is not the rubric that the table's footers name.
    """
    uri = locations.join(source.uri, "_run", FILE)
    try:
        held = read_json(uri)
    except FileNotFoundError:
        return None
    try:
        questions = tuple(_question(entry) for entry in held["questions"])
        kept = KeptRubric(str(held["kind"]), str(held["name"]), questions, dict(held["data"]))
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{uri}: damaged, not the rubric of a table of ratings ({error!r})") from error
    named = source.metadata.get(f"remine.{HASH}", kept.sha256)
    if {held.get("sha256"), named} != {kept.sha256}:
        raise InputError(
            f"{uri}: changed since the ratings were made: its SHA-256 is {kept.sha256}, the table's footers say "
            f"{named}; restore the file"
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
        by_name: rubric -> what is kept of it.
        without: the tables that keep none.
    """

    by_name: Mapping[str, KeptRubric]
    without: tuple[str, ...] = ()

    def question(self, rubric: str, question: str) -> KeptQuestion | None:
        """The question, None if no table keeps its rubric or the rubric has no such question."""
        return self.by_name[rubric].question(question) if rubric in self.by_name else None

    def scale(self, rubric: str, question: str) -> tuple[tuple[float, float] | None, str]:
        """The lowest and highest score, or None and the reason why they are not known."""
        if rubric not in self.by_name:
            return None, f"the scale is not known: no table of ratings keeps its rubric {rubric!r} (_run/{FILE})"
        if (found := self.question(rubric, question)) is None:
            return None, f"the scale is not known: rubric {rubric!r} has no question {question!r}"
        if found.scale == CONTINUOUS:
            return None, "the scores are numbers without a lowest and a highest"
        return found.bounds, f"rubric {rubric!r} gives the answers to {question!r} no scores"


def read_rubrics(sources: Sequence[TableSource]) -> Rubrics:
    """The rubrics that tables of ratings keep.

    Raises:
        InputError: two tables have different rubrics of one name; or as `read_kept`.
    """
    first: dict[str, tuple[str, str]] = {}  # rubric -> its hash and the table that has it
    by_name: dict[str, KeptRubric] = {}
    without = []
    for source in sources:
        kept = read_kept(source)
        for name, digest in _named(source, kept):
            other, place = first.setdefault(name, (digest, source.uri))
            if other != digest:
                raise InputError(
                    f"ratings: {place} and {source.uri} were made with different rubrics of the name {name!r} "
                    "(questions, answers, labels or scores differ); report them separately, or rename one rubric (of "
                    "jobs.import_ratings answers= by name=) and make its ratings again"
                )
        if kept is None:
            without.append(source.uri)
        else:
            by_name.setdefault(kept.name, kept)
    return Rubrics(by_name, tuple(without))


def _named(source: TableSource, kept: KeptRubric | None) -> Iterator[tuple[str, str]]:
    """The rubric's name and hash, by the table's footers or by what it keeps."""
    name, digest = (source.metadata.get(f"remine.{key}") for key in (NAME, HASH))
    if name and digest:
        yield name, digest
    elif kept is not None:
        yield kept.name, kept.sha256
