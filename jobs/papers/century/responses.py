"""Tables 3 and 12 and self-preference: the quality of models' historical contextualisation of pictures."""

from collections.abc import Iterator, Mapping

from jobs.metrics.question import MODELS, PEOPLE
from jobs.papers.century.words import ELEMENTS, METHODS, short, titled
from jobs.papers.model import PaperCell, PaperRow, PaperTable
from jobs.papers.study import Study

ROLE = "responses"
AGREE = "4"  # "agree" or higher
WRITER = "model"  # attribute of a response


def writers(study: Study) -> list[str]:
    """Return the models that wrote the rated responses."""
    return sorted(study.metrics.values("part", "share_at_least", rubric=study.rubric(ROLE), attribute=WRITER))


def prompts(study: Study) -> tuple[str, str] | None:
    """Return the names of the explicit and the minimal prompt; None if no prompts are contrasted.

    They are the first pair in `paper.contrast` and then `metrics.contrast` for which the responses have both prompts;
    else the first pair whose explicit prompt they have, or the first pair.
    """
    parts = study.metrics.values("part", "share_at_least", rubric=study.rubric(ROLE), attribute=f"{WRITER}+prompt")
    present = {part.rpartition(" + ")[2] for part in parts}
    contrasts = [*study.settings.contrast, *study.metric_settings.contrast]
    of_prompts = (contrast.partition(":")[2] for contrast in contrasts if contrast.startswith("prompt:"))
    pairs = [(first, second) for first, _, second in (values.partition("-") for values in of_prompts)]
    return max(pairs, key=lambda pair: (pair[0] in present, pair[1] in present), default=None)


def written_by(study: Study, writer: str) -> dict[str, str]:
    """Return the dims of a writer's responses to the explicit prompt, or of all its responses if there are none.

    Except for table 12, the paper's results are for the explicit prompt.
    """
    both = prompts(study)
    part = f"{writer} + {both[0]}" if both else ""
    attribute = f"{WRITER}+prompt"
    if study.metrics.find("share_at_least", rubric=study.rubric(ROLE), attribute=attribute, part=part):
        return {"attribute": attribute, "part": part}
    return {"attribute": WRITER, "part": writer}


def prompt_note(study: Study) -> str:
    """Return a sentence about the responses that count."""
    parts = [written_by(study, writer)["attribute"] for writer in writers(study)]
    both = prompts(study)
    if both and parts and all(attribute != WRITER for attribute in parts):
        return f"Responses to the prompt {both[0]} count."
    return "Responses to all prompts count."


def share_dims(study: Study, element: str, group: str, subgroup: Mapping[str, str]) -> dict[str, str]:
    """Return the dims of the share of responses in a subgroup that a group scores at "agree" or higher."""
    dims = {"rubric": study.rubric(ROLE), "question": element, "group": group, "threshold": AGREE, "rule": "mean"}
    return dims | dict(subgroup)


def table_3(study: Study) -> PaperTable:
    """Return the shares of responses scored "agree" or higher by element, method and the model that wrote them."""
    printed, models = study.printed("table_3"), writers(study)
    others = study.unmatched(printed.table.columns, models)
    groups = study.groups(study.rubric(ROLE), people=METHODS[PEOPLE], models=METHODS[MODELS])
    groups.sort(key=lambda group: group[0] == PEOPLE)  # automated before human, as in the paper
    rows = []
    for element, dimension in ELEMENTS.items():
        for group, label in groups:
            row = f"{element} / {METHODS.get(group, '')}"
            cells = [
                study.cell(
                    "share_at_least",
                    share_dims(study, element, group, written_by(study, writer)),
                    printed=printed.at(row, study.name_in_paper(writer) or ""),
                    reason=f"no response was scored on {element}",
                )
                for writer in models
            ]
            cells += [PaperCell(printed=printed.at(row, other)) for other in others]
            rows.append(PaperRow((dimension, titled(element), label), tuple(cells)))
    return PaperTable(
        name="table_3",
        title="Historical contextualisation: responses scored “agree” (4) or higher",
        citation="Century, table 3",
        row_headers=("Dimension", "Element", "Method"),
        columns=tuple((label,) for label in (*map(short, models), *others)),
        rows=tuple(rows),
        notes=(
            prompt_note(study),
            "n counts responses with enough ratings; the mean of the ratings is used. In the paper n is 1,500 for "
            "automated ratings; for people it states 378, but its percentages are multiples of 1/189.",
        ),
    )


def table_12(study: Study) -> Iterator[PaperTable]:
    """Yield the shares under two prompts and their difference, if the responses have two prompts to contrast."""
    if (both := prompts(study)) is None:
        return
    first, second = both
    printed, models = study.printed("table_12"), writers(study)
    paper_writers = dict.fromkeys(column.rpartition(" ")[0] for column in printed.table.columns)
    others = study.unmatched(list(paper_writers), models)
    rows = []
    for element, dimension in ELEMENTS.items():
        cells: list[PaperCell] = []
        for writer in models:
            in_paper = study.name_in_paper(writer) or ""
            for prompt, column in ((first, "explicit"), (second, "minimal")):
                part = {"attribute": f"{WRITER}+prompt", "part": f"{writer} + {prompt}"}
                dims = share_dims(study, element, MODELS, part)
                cells.append(study.cell("share_at_least", dims, printed=printed.at(element, f"{in_paper} {column}")))
            dims = {"rubric": study.rubric(ROLE), "question": element, "group": MODELS, "threshold": AGREE}
            dims |= {"attribute": "prompt", "first": first, "second": second, WRITER: writer}
            cells.append(study.cell("share_difference", dims, printed=printed.at(element, f"{in_paper} delta")))
        for other in others:
            cells += [PaperCell(printed=printed.at(element, f"{other} {c}")) for c in ("explicit", "minimal", "delta")]
        rows.append(PaperRow((dimension, titled(element)), tuple(cells)))
    names = [*map(short, models), *others]
    yield PaperTable(
        name="table_12",
        title=f"Responses scored “agree” or higher with the prompts {first} and {second}",
        citation="Century, table 12",
        row_headers=("Dimension", "Element"),
        columns=tuple((name, column) for name in names for column in (titled(first), titled(second), "Delta")),
        rows=tuple(rows),
        notes=(f"Delta is {first} minus {second}, by the mean rating of all models; n counts responses.",),
    )


def self_preference(study: Study) -> Iterator[PaperTable]:
    """Yield how much more each judge prefers responses of its family than raters without a stake, if it has one."""
    rubric = study.rubric(ROLE)
    judges = study.metrics.values("rater", "self_preference", rubric=rubric)
    if not judges:
        return
    both = prompts(study)
    prompt = {"attribute": "prompt", "part": both[0] if both else ""}
    if not study.metrics.find("self_preference", rubric=rubric, **prompt):
        prompt = {}
    rows = []
    for judge in judges:
        dims = {"rubric": rubric, "rater": judge, **prompt}
        cells = (
            study.cell("self_preference", dims | {"question": element}, unit="number",
                       reason=f"no ok rating of {element} by {short(judge)}")
            for element in ELEMENTS
        )  # fmt: skip
        rows.append(PaperRow((short(judge),), tuple(cells)))
    yield PaperTable(
        name="self_preference",
        title="Self-preference of judges",
        citation="Century, section 4.2 and appendix S (no numbers in the paper)",
        row_headers=("Judge",),
        columns=tuple((titled(element),) for element in ELEMENTS),
        rows=tuple(rows),
        notes=(
            f"Responses to the prompt {prompt['part']} count." if prompt else "Responses to all prompts count.",
            "Points of the scale by which a judge scores responses of its family higher than raters without a stake in "
            "them do (people, and judges of neither its nor the writer’s family), minus the same for other families; n "
            "counts responses.",
        ),
    )
