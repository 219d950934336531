"""A study from the keys of `annotate`: its form, its plan (rows of `assignments`), and the files of its tasks."""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from actors.ids import content_id
from actors.quantities import quantity
from actors.rubrics.rubric import Rubric
from actors.settings import Location, RuntimeOnly
from jobs.annotation import assignment
from jobs.annotation import form as forms
from jobs.annotation.assignment import Assignment, Rater, read_raters
from jobs.annotation.form import Form, OwnSet, ShownItem, WelfareConfig
from jobs.annotation.judge_uncertainty import JudgeUncertainty, read_uncertainty
from jobs.annotation.shown_items import PICTURE_FOLDER, Showing, ShownTables, open_shown
from jobs.annotation.span_labels import SpanLabels
from jobs.annotation.tool import TOOLS, PlacedItem, tool_of
from jobs.errors import InputError, as_input_error, check_choice
from jobs.judging import own_questions
from jobs.judging.model_config import OwnQuestionsConfig
from jobs.judging.rating_tables import open_ratings
from jobs.runtime.configuration import config
from jobs.runtime.configuration.config import Writing
from jobs.runtime.configuration.key_types import MISSING, conf_group
from jobs.runtime.selection.draws import UNCERTAIN, WeightedDrawConfig
from jobs.store import table_plan
from jobs.store.files import locations
from jobs.store.reading import open_table
from jobs.tables import AUDITOR, NOT_DRAWN, QUOTA, SHARED, TABLES

SPREADSHEET = "spreadsheet"
BY_RUBRIC, CENTURY = "by_rubric", "century"  # files of conf/welfare
FILES, PICTURES, TARGETS = ("rater", "group"), ("url", "files"), ("rubric", "group")


@dataclass
class AnnotateConfig(OwnQuestionsConfig, Writing):
    """Keys of `annotate`."""

    # Each of these is a table, a glob of tables, or a list of them
    input: Location[Any] = MISSING  # images or items
    images: Location[Any] = None  # the pictures of items
    records: Location[Any] = None  # facts shown with the pictures, and values for the fields of links
    texts: Location[Any] = None  # the texts of items
    responses: Location[Any] = None  # the responses of items
    rubric: dict[str, Any] = conf_group(None)  # the questions that people are asked
    only_questions: list[str] = field(default_factory=list)  # names of the rubric's questions to ask; empty: all
    span_labels: dict[str, Any] = conf_group(None)  # kinds of spans that people mark (conf/span_labels)
    # notice, blur, skipping and reporting; by_rubric: as century if the rubric is sensitive, else as plain
    welfare: WelfareConfig = conf_group(BY_RUBRIC, WelfareConfig)
    show_columns: list[str] = field(default_factory=lambda: ["page_title"])  # columns of records that the form shows
    tool: str = "label_studio"  # prodigy, or spreadsheet: a CSV per rater
    # CSV or Parquet with a column rater, a table of raters, or a number of people, who are called person_1, person_2, …
    raters: str = MISSING
    raters_encoding: str | None = None  # rarely: encoding of the CSV; null: by its byte-order mark, else UTF-8
    group: str | None = None  # column of raters: country, pool, …
    # different raters per item, from all groups together; null with a number of raters: all of them
    per_item: int | None = None
    per_group: int | None = None  # different raters per item of each group …
    quotas: Any = None  # rarely: … or of these groups: {China: 20, India: 10}
    target: str = "rubric"  # rate each item against the rubric's targets; or group: against the rater's own group
    shared: int = 0  # items (sets, with together) that every rater (of a group) sees
    # items of one picture, or with one value of this column or attribute, go to the same raters, one after another
    together: str | None = None
    per_rater: int | None = None  # most tasks per rater; a column limit of raters takes precedence
    audit: float = 0.0  # rarely: share of each rater's tasks that the auditor repeats
    auditor: str | None = None  # rarely: the person who repeats them; not one of the raters
    draw: WeightedDrawConfig = field(default_factory=WeightedDrawConfig)  # which of the items to show
    # tables, or globs: of judges, for draw.method=uncertain; with earlier= and plan=true also of people, to see what
    # more of their ratings would bring
    ratings: list[str] = field(default_factory=list)
    # assignments of the batches before, which this one continues: same draw.seed and ratings=, a larger draw.n
    earlier: str | None = None
    seed: int = 0  # the same seed, items and raters give the same plan
    # read only the first rows of input=, for a trial run in a separate folder; null: all
    limit: RuntimeOnly[int | None] = None
    files: str = "rater"  # one file of tasks per rater; or group: one file per group
    pictures: str = "url"  # link to their sources; or files: write their bytes to OUT/pictures
    # rarely: for pictures=files: prepended to a file's name, so that the tool finds it; null: pictures/, and from a
    # spreadsheet ../pictures/
    picture_base: str | None = None

    @staticmethod
    def prepare(values: dict[str, Any]) -> dict[str, Any]:
        """Return the composed values with welfare=by_rubric decided, except for its keys that the user set."""
        welfare, rubric = values["welfare"], values["rubric"]
        if welfare["name"] != BY_RUBRIC or not (isinstance(rubric, dict) and rubric.get("sensitive") is True):
            return values
        plain, protecting = (config.compose("annotate", AnnotateConfig, [f"welfare={w}"]) for w in (BY_RUBRIC, CENTURY))
        changed = {name: value for name, value in welfare.items() if value != plain["welfare"][name]}
        return values | {"welfare": protecting["welfare"] | changed}

    @property
    def raters_per_item(self) -> int:
        """The number of raters of a group who rate an item; with several quotas, the largest number."""
        return self.per_item or self.per_group or max((self.quotas or {}).values())


def read_questions(cfg: AnnotateConfig) -> tuple[Rubric | None, SpanLabels | None]:
    """Return the rubric and the span labels of a study.

    Raises:
        InputError: a file is invalid, or a rubric's targets are missing.
    """
    try:
        rubric = Rubric.from_dict(cfg.rubric) if cfg.rubric else None
        span_labels = SpanLabels.from_dict(cfg.span_labels) if cfg.span_labels else None
    except ValueError as error:
        raise as_input_error(error) from error
    if rubric:
        own_questions.check(cfg, rubric)
    if cfg.questions and not rubric:
        raise InputError("needs a rubric that asks items their own questions, such as dsg", key="questions")
    about_targets = rubric is not None and any(task_targets(cfg, rubric))
    if cfg.target == "group" and not (about_targets and cfg.group):
        raise InputError("needs group=, and a rubric that asks about a target", key="target", value="group")
    if rubric and cfg.target == "rubric" and not rubric.targets and _asked(cfg, rubric)[0]:
        raise InputError("asks about targets, but has none; add targets, or set target=group", key="rubric")
    return rubric, span_labels


def open_sources(cfg: AnnotateConfig) -> ShownTables:
    """Return the tables from which items are shown.

    Raises:
        InputError: a table does not exist, or `input` is not one of images or items.
    """
    main = open_shown("input", cfg.input, "images", "items")
    if main is None:
        raise InputError("no table there; it must be a table of images or of items", key="input", value=cfg.input)
    tables = {key: open_shown(key, getattr(cfg, key), key) for key in ("images", "records", "texts", "responses")}
    if main.name == "images":
        tables["images"] = main
    return ShownTables(main.first(cfg.limit), **tables)


def judge_uncertainty(cfg: AnnotateConfig) -> JudgeUncertainty | None:
    """Return how uncertain the judges of `ratings=` are about each item; None if the draw does not depend on it."""
    if cfg.draw.method != UNCERTAIN:
        return None
    sources = open_ratings(cfg.ratings)
    return read_uncertainty(sources, rubric=cfg.rubric["name"], questions=cfg.only_questions)


def task_targets(cfg: AnnotateConfig, rubric: Rubric) -> tuple[str, ...]:
    """Return the targets of an item's tasks.

    Each task is about one target, with all of the study's questions about targets; a task with an empty target has the
    questions without one. With target=group the target is `OF_GROUP`.
    """
    about, once = _asked(cfg, rubric)
    of_targets = (OF_GROUP,) if cfg.target == "group" else rubric.targets
    return (*(of_targets if about else ()), *(("",) if once or not about else ()))


def _asked(cfg: AnnotateConfig, rubric: Rubric) -> tuple[list[str], list[str]]:
    """Return the names of the study's questions about targets, and of those without."""
    names = [n for n in forms.offered_questions(rubric) if not cfg.only_questions or n in cfg.only_questions]
    about = [name for name in names if rubric.asks_targets and rubric.question(name).targets]
    return about, [name for name in names if name not in about]


def showing(cfg: AnnotateConfig, rubric: Rubric | None, own_sets: Mapping[str, OwnSet]) -> Showing:
    """Return how items are shown. If people answer an item's own questions, they see what models see, not the text that
    the questions are about."""
    folder = f"{PICTURE_FOLDER}/" if cfg.tool != SPREADSHEET else f"../{PICTURE_FOLDER}/"  # relative to the sheet
    base = (folder if cfg.picture_base is None else cfg.picture_base) if cfg.pictures == "files" else None
    roles = rubric.context_fields if rubric and own_sets and not cfg.span_labels else None
    return Showing(cfg.show_columns, cfg.welfare.links, base, roles, own_sets)


def build_form(cfg: AnnotateConfig, rubric: Rubric | None, span_labels: SpanLabels | None, item: ShownItem) -> Form:
    """Return the form of a study, for items with the pictures and texts of `item`.

    Raises:
        InputError: see `jobs.annotation.form.form`.
    """
    try:
        form = forms.form(
            rubric,
            questions=cfg.only_questions,
            span_labels=span_labels,
            welfare=cfg.welfare,
            pictures=len(item.pictures),
            texts=tuple(item.texts),
        )
        tool_of(cfg.tool).check(form)
        return form
    except ValueError as error:
        raise as_input_error(error) from error


_SEPARATOR = "\x1f"  # between an item and its target
OF_GROUP = "\x1d"  # the target of tasks about the rater's own group


def assign_items(
    cfg: AnnotateConfig,
    items: Mapping[str, str],
    raters: Sequence[Rater],
    rubric: Rubric | None,
    own_sets: Mapping[str, OwnSet],
) -> list[Assignment]:
    """Return the plan. An item is assigned once per target, and once more for questions without a target; the target of
    an item with its own questions is the id of their set, as in ratings by `judge`.

    With `together=`, all items and targets of a set go to the same raters.

    Args:
        items: the set of each item, by item_id.
        own_sets: the item's own questions, by item_id.

    Raises:
        InputError: quotas for an unknown group, an auditor who is a rater or whose file would be that of a group, or an
            infeasible plan.
    """
    targets = task_targets(cfg, rubric) if rubric else ("",)
    groups = sorted({rater.group for rater in raters})
    quotas = dict(cfg.quotas or {}) if cfg.per_group is None else dict.fromkeys(groups, cfg.per_group)
    if unknown := next((name for name in quotas if name not in groups), None):
        why = f"no rater has this {cfg.group}; must be one of {', '.join(groups)}"
        raise InputError(why, key=f"quotas.{unknown}", value=quotas[unknown])
    if cfg.auditor in {rater.name for rater in raters}:
        raise InputError("is one of the raters", key="auditor", remedy="name a person who has not seen the items")
    if cfg.files == "group" and cfg.auditor and _stem(cfg.auditor) in map(_stem_of_group, groups):
        why = "files=group gives the tasks of a group a file of this name"
        raise InputError(why, key="auditor", value=cfg.auditor, remedy="write the auditor's name differently")
    sets = {
        _SEPARATOR.join([item, target]): label
        for item, label in items.items()
        for target in ((own_sets[item].set_id,) if item in own_sets else targets)
    }
    return assignment.assign(
        list(sets),
        raters,
        seed=cfg.seed,
        per_item=cfg.per_item,
        quotas=quotas or None,
        shared=cfg.shared,
        audit=cfg.audit,
        together=sets if cfg.together else None,
    )


def assignment_rows(
    cfg: AnnotateConfig,
    tasks: Sequence[Assignment],
    *,
    probability: Mapping[str, float],
    earlier: Sequence[Mapping[str, Any]] = (),
) -> list[dict[str, Any]]:
    """Return rows of `assignments`: the raters' tasks, then the auditor's, each once and in random order.

    Args:
        probability: with which each item was drawn, by item_id; empty without a draw.
        earlier: rows of the batches before; each rater's places continue theirs.
    """
    batch = 1 + max((row["batch"] for row in earlier), default=0)
    after: Counter[str] = Counter()
    for row in earlier:
        after[row["rater"]] = max(after[row["rater"]], row["place"])

    def row_of(task: Assignment, role: str) -> dict[str, Any]:
        row = _row(cfg, task, role=role)
        return row | {
            "place": task.place + after[task.rater],
            "batch": batch,
            "probability": probability.get(row["item_id"]),
        }

    rows = [row_of(task, SHARED if task.shared else QUOTA) for task in tasks]
    audited: dict[str, list[tuple[str, str]]] = defaultdict(list)
    drawn = {(task.together, task.item, task.group if cfg.target == "group" else "") for task in tasks if task.audit}
    for label, item, group in sorted(drawn):
        audited[label].append((item, group))
    if cfg.auditor and audited:
        order = assignment.in_random_order(audited, seed=cfg.seed, name=cfg.auditor)
        for place, (label, (item, group)) in enumerate(order, start=1):
            again = Assignment(cfg.auditor, group, place, item, shared=False, audit=False, together=label)
            rows.append(row_of(again, AUDITOR))
    return rows


def read_earlier(cfg: AnnotateConfig, frame: pa.Table | None) -> list[dict[str, Any]]:
    """Return the rows of earlier batches, with the probability of their items in all batches together.

    Rows of items that can no longer be shown, such as excluded ones, are left out.

    Args:
        frame: the items that could be drawn and their probabilities; None without a draw.
    """
    if cfg.earlier is None:
        return []
    source = open_table(cfg.earlier, "assignments", key="earlier")
    rows = [row for batch in source.batches() for row in batch.to_pylist() if row["role"] != NOT_DRAWN]
    if frame is None:
        return [row | {"probability": None} for row in rows]
    probability = probability_of(frame)
    return [row | {"probability": probability[row["item_id"]]} for row in rows if row["item_id"] in probability]


def probability_of(frame: pa.Table | None) -> dict[str, float]:
    """Return the probability of each item that could be drawn; empty without a draw."""
    return {} if frame is None else dict(zip(*(column.to_pylist() for column in frame.columns), strict=True))


def new_items(
    cfg: AnnotateConfig, drawn: Sequence[dict[str, Any]], earlier: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return the drawn items that no earlier batch has.

    Raises:
        InputError: a draw does not contain the items of earlier batches, or has no other item.
    """
    before = {row["item_id"] for row in earlier}
    missing = len(before - {row["item_id"] for row in drawn})
    if missing and cfg.draw.is_set:
        raise InputError(
            f"{missing:,} of its {len(before):,} items are not among those that draw.n={cfg.draw.n} draws",
            key="earlier",
            remedy="use the draw.seed, draw.method and ratings of that batch, and a larger draw.n",
        )
    rows = [row for row in drawn if row["item_id"] not in before]
    if not rows:
        raise InputError("has all items that would be shown", key="earlier", remedy="raise draw.n")
    return rows


def undrawn_rows(frame: pa.Table | None, drawn: Collection[str]) -> pa.Table:
    """Return rows of `assignments` for the items that could have been drawn and were not.

    Args:
        frame: the items that could be drawn, with their probabilities; None: without a draw there are none.
        drawn: ids of the items that were drawn.
    """
    schema = TABLES["assignments"].schema()
    if frame is None:
        return schema.empty_table()
    rest = frame.filter(pc.invert(pc.is_in(frame["item_id"], pa.array(sorted(drawn), pa.string()))))
    n = len(rest)
    columns = dict.fromkeys(("rater", "target", "group", "file"), pa.array([""] * n, pa.string())) | {
        "place": pa.array(np.arange(1, n + 1), pa.int32()),
        "item_id": rest["item_id"],
        "role": pa.array([NOT_DRAWN] * n, pa.string()),
        "audited": pa.array(np.zeros(n, bool)),
        "batch": pa.nulls(n, pa.int32()),
        "probability": rest["probability"],
    }
    return pa.table([columns[name] for name in schema.names], schema=schema)


def _row(cfg: AnnotateConfig, task: Assignment, *, role: str) -> dict[str, Any]:
    item_id, _, target = task.item.partition(_SEPARATOR)
    by_group = cfg.files == "group" and role != AUDITOR
    return {
        "rater": task.rater,
        "place": task.place,
        "item_id": item_id,
        "target": task.group if target == OF_GROUP else target,
        "group": task.group,
        "role": role,
        "audited": task.audit,
        "file": _stem_of_group(task.group) if by_group else _stem(task.rater),
    }


def _stem_of_group(group: str) -> str:
    return _stem(group or "all")


def _stem(name: str) -> str:
    """Return a safe file name for `name`; if it differs, it ends in a hash that keeps names apart."""
    safe = re.sub(r"[^A-Za-z0-9._@-]+", "_", name).lstrip(".")[:80]
    return safe if safe == name else f"{safe or 'rater'}-{content_id(name)[:8]}"


def describe(cfg: AnnotateConfig, tasks: Sequence[Assignment]) -> str:
    """Return the numbers of a plan in a sentence: tasks, items, raters, loads, overlaps and audits."""
    by_group = cfg.per_item is None
    numbers = assignment.summary(tasks, by_group=by_group)
    overlaps = ""
    if numbers.overlap_least is not None:
        shared = quantity(numbers.overlap_least, "task")
        if numbers.overlap_most != numbers.overlap_least:
            shared = f"{numbers.overlap_least:,} to {numbers.overlap_most:,} (median {numbers.overlap_median:g}) tasks"
        overlaps = f"; any two raters{' of a group' if by_group else ''} share {shared}"
    loads = f"{numbers.least:,}" + (f" to {numbers.most:,}" if numbers.most != numbers.least else "")
    audits = f"; {numbers.audits:,} drawn for the audit" if numbers.audits else ""
    placed = {task.item for task in tasks}
    items = {item.partition(_SEPARATOR)[0] for item in placed}
    repeats = f" (each {len(placed) / len(items):g} times, for its targets)" if len(placed) > len(items) else ""
    tasks_of_items = f"{quantity(numbers.tasks, 'task')} of {quantity(len(items), 'item')}{repeats}"
    return f"{tasks_of_items} for {quantity(numbers.raters, 'rater')}, {loads} each{overlaps}{audits}"


def plans_of(cfg: AnnotateConfig) -> list[str]:
    """Return the keys that say how many raters each item has; exactly one may be set."""
    plans = {"per_item": cfg.per_item is not None, "per_group": cfg.per_group is not None, "quotas": bool(cfg.quotas)}
    return [key for key, is_set in plans.items() if is_set]


def check_raters(cfg: AnnotateConfig) -> list[Rater]:
    """Return the raters, after checking all keys; reads the file of raters and no other.

    Raises:
        InputError: a value is not allowed, keys cannot be combined, or the raters cannot be read.
    """
    if "/" not in cfg.raters and not cfg.raters.isdigit() and not Path(cfg.raters).exists():
        why = "must be a number of people, such as 3, or an existing file or table with a column rater"
        raise InputError(why, key="raters", value=cfg.raters)
    check_keys(cfg)
    raters = read_raters(cfg.raters, group=cfg.group, limit=cfg.per_rater, encoding=cfg.raters_encoding)
    if cfg.per_item is not None and cfg.per_item > len(raters):
        why = f"each item needs {cfg.per_item} different raters; there are {len(raters)}"
        raise InputError(why, key="per_item", value=cfg.per_item, remedy=f"use 1 to {len(raters)}, or name more raters")
    return raters


def check_keys(cfg: AnnotateConfig) -> None:
    """Raise InputError for a value that its key does not allow, or for keys that cannot be combined."""
    check_choice("tool", cfg.tool, TOOLS)
    check_choice("files", cfg.files, FILES)
    check_choice("pictures", cfg.pictures, PICTURES)
    check_choice("target", cfg.target, TARGETS)
    if not cfg.rubric and not cfg.span_labels:
        raise InputError("rubric= or span_labels= is required, or both: what people are asked")
    plans = plans_of(cfg)
    if len(plans) != 1 and (plans or not cfg.raters.isdigit()):
        present = ", ".join(plans) or "none"
        raise InputError(f"per_item=, per_group= or quotas= is required: exactly one ({present} is given)")
    if cfg.quotas and not (isinstance(cfg.quotas, dict) and all(type(n) is int for n in cfg.quotas.values())):
        raise InputError("must be of the form {group: raters per item, …}", key="quotas", value=cfg.quotas)
    if ("per_group" in plans or "quotas" in plans) and cfg.group is None:
        why = "required with per_group= and quotas=: the column of raters that names the group"
        raise InputError(why, key="group", value="")
    cfg.draw.check()
    if (cfg.draw.method == UNCERTAIN) != bool(cfg.ratings) and not (cfg.plan and cfg.ratings):
        raise InputError(
            "draw.method=uncertain and ratings= go together: ratings of judges who rated all items; otherwise ratings= "
            "is only for plan=true"
        )
    if cfg.draw.method == UNCERTAIN and not cfg.rubric:
        why = "needs rubric=, the questions about which judges are uncertain"
        raise InputError(why, key="draw.method", value="uncertain")
    table_plan.check_limit(cfg.limit)
    if bool(cfg.audit) != bool(cfg.auditor):
        raise InputError("audit= and auditor= go together: the share of tasks, and the person who repeats them")


def write_task_files(
    cfg: AnnotateConfig,
    folder: str,
    form: Form,
    shown: Mapping[str, ShownItem],
    rows: Sequence[Mapping[str, Any]],
) -> int:
    """Write the files that an annotation tool imports to `folder`; return the number of files of tasks.

    Args:
        shown: the items as shown to people, by item_id.
        rows: rows of `assignments`.
    """
    tool = tool_of(cfg.tool)
    by_file: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        by_file[row["file"]].append(row)
    parts: dict[str, bool | None] = {folder: None}  # folder -> whether its tasks have a target; None: either
    if tool.one_form and form.asks_both:
        parts = {locations.join(folder, f"{word}_target"): word == "with" for word in ("with", "without")}
    kinds: Counter[str] = Counter()
    for name in sorted(by_file):
        placed = _placed(cfg, name, by_file[name], shown)
        for part, has_target in parts.items():
            of_part = [task for task in placed if has_target in (None, bool(task.target))]
            by_kind = tool.task_files(form, of_part) if of_part else {}
            _put(part, {f"{name}.{kind}": text for kind, text in by_kind.items()})
            kinds.update(by_kind.keys())
    for part, has_target in parts.items():
        form_of_part = form if has_target is None else form.of_task("x" if has_target else "")
        of_form = tool.form_files(form_of_part, kinds, cfg.raters_per_item if cfg.files == "group" else None)
        _put(part, of_form)
    return kinds.total()


def _put(folder: str, texts: Mapping[str, str]) -> None:
    """Write files to `folder`, except existing ones, which people may have filled."""
    existing = {stored.uri for stored in locations.listing(folder)}
    for name, text in texts.items():
        if (uri := locations.join(folder, name)) not in existing:
            locations.replace(uri, text.encode())


def refuse_filled(cfg: AnnotateConfig, folder: str) -> None:
    """Check that no task file of an earlier plan, which overwrite=true would delete, has answers.

    Raises:
        InputError: a sheet has answers.
    """
    has_answers = tool_of(cfg.tool).has_answers
    for stored in locations.listing(folder):
        if has_answers(stored.uri, locations.read_bytes(stored.uri)):
            raise InputError(
                f"{stored.uri} has people's answers; move the filled sheets to another folder first",
                key="overwrite",
                value=True,
            )


def _placed(
    cfg: AnnotateConfig, name: str, rows: Sequence[Mapping[str, Any]], shown: Mapping[str, ShownItem]
) -> list[PlacedItem]:
    """Return the tasks of one file; a group's file has each task once, in random order."""
    if cfg.files != "group" or rows[0]["role"] == AUDITOR:
        return [PlacedItem(shown[row["item_id"]], row["target"], row["rater"], row["place"]) for row in rows]
    tasks = sorted({(row["item_id"], row["target"]) for row in rows})
    order = assignment.shuffled(tasks, seed=cfg.seed, name=name)
    return [PlacedItem(shown[item], target, None, place) for place, (item, target) in enumerate(order, start=1)]
