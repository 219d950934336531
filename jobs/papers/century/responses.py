"""Tables 3 and 12 and self-preference: the quality of models' historical contextualisation of pictures."""

from collections.abc import Iterator, Mapping

from jobs.metrics.question import MODELS, PEOPLE
from jobs.papers.century.words import ALL_MODELS, ELEMENTS, METHODS, short, titled
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


def no_share(study: Study, element: str, group: str, part: Mapping[str, str] | None = None) -> str:
    """Return why the report has no share of responses that a group scores at "agree" or higher.

    Args:
        part: dims of the subgroup of responses.
    """
    dims = {"rubric": study.rubric(ROLE), "question": element, "group": group}
    if not study.metrics.find("group_mean_score", **dims):
        return study.no_rating(study.rubric(ROLE), element, group)
    if part and not study.metrics.find("group_mean_score", **dims, **part):
        return f"no response of {part['part']} was rated on {element}"
    return f"{AGREE} is not the highest of metrics.at_least that is on the scale"


def table_3(study: Study) -> PaperTable:
    """Return the shares of responses scored "agree" or higher by element, method and the model that wrote them."""
    printed, models = study.printed("table_3"), writers(study)
    others = study.unmatched(printed.table.columns, models)
    groups = study.groups(study.rubric(ROLE), people=METHODS[PEOPLE], models=METHODS[MODELS])
    groups.sort(key=lambda group: group[0] == PEOPLE)  # automated before human, as in the paper
    parts = {writer: written_by(study, writer) for writer in models}
    rows = []
    for element, dimension in ELEMENTS.items():
        for group, label in groups:
            row = f"{element} / {next((m for name, m in METHODS.items() if study.stands_for(group, name)), '')}"
            cells = [
                study.cell(
                    "share_at_least",
                    share_dims(study, element, group, parts[writer]),
                    printed=printed.at(row, study.name_in_paper(writer) or ""),
                    reason=no_share(study, element, group, parts[writer]),
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
            *filter(None, [study.people_needed(study.rubric(ROLE), ELEMENTS, items="responses")]),
            "n counts responses rated by the group; the mean of the ratings is used. In the paper n is 1,500 for "
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
    groups = study.groups(study.rubric(ROLE), people="", models=ALL_MODELS) or [(MODELS, ALL_MODELS)]
    rows = [
        PaperRow((dimension, titled(element), label), (
            *(cell for writer in models for cell in _under_both(study, element, group, writer, both)),
            *(PaperCell(printed=printed.at(element, f"{other} {column}"))
              for other in others for column in ("explicit", "minimal", "delta")),
        ))
        for element, dimension in ELEMENTS.items()
        for group, label in groups
        if group != PEOPLE  # whom the paper shows responses to one prompt
    ]  # fmt: skip
    names = [*map(short, models), *others]
    yield PaperTable(
        name="table_12",
        title=f"Responses scored “agree” or higher with the prompts {first} and {second}",
        citation="Century, table 12",
        row_headers=("Dimension", "Element", "Judges"),
        columns=tuple((name, column) for name in names for column in (titled(first), titled(second), "Delta")),
        rows=tuple(rows),
        notes=(f"Delta is {first} minus {second}, by the mean rating of the judges; n counts responses.",),
    )


def _under_both(study: Study, element: str, group: str, writer: str, both: tuple[str, str]) -> Iterator[PaperCell]:
    """Yield the share of a writer's responses to each of two prompts, and the first minus the second."""
    printed, in_paper = study.printed("table_12"), study.name_in_paper(writer) or ""
    if not study.stands_for(group, MODELS):
        in_paper = ""  # the paper's numbers are of all models
    for prompt, column in zip(both, ("explicit", "minimal"), strict=True):
        part = {"attribute": f"{WRITER}+prompt", "part": f"{writer} + {prompt}"}
        yield study.cell(
            "share_at_least",
            share_dims(study, element, group, part),
            printed=printed.at(element, f"{in_paper} {column}"),
            reason=no_share(study, element, group, part),
        )
    dims = {"rubric": study.rubric(ROLE), "question": element, "group": group, "threshold": AGREE, WRITER: writer}
    dims |= {"attribute": "prompt", "first": both[0], "second": both[1]}
    yield study.cell(
        "share_difference",
        dims,
        printed=printed.at(element, f"{in_paper} delta"),
        reason=no_share(study, element, group, {"attribute": WRITER, "part": writer}),
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
