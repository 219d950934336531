"""Draw pictures from prompts with a text-to-image model -> tables `images` and `items`.

    remine generate_images input=R/prompts image_model=sd3-medium out=R/generated
    remine generate_images input=R/rome/items texts=R/rome/texts samples=6 \\
        'image_models=[sd3-medium,sdxl-base]' out=R/generated

`input` is a table of texts (remine prompts) or of items with a text of role `prompt` in `texts=`. OUT/images has the
pictures as PNG. OUT/items has one item per picture, with the values or attributes, targets and texts of its prompt, so
that people and models can judge it. Each picture has its own seed, derived from the prompt and its number. Several
models draw one after another into the same tables; the attribute `image_model` of an item is the name of its model.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from actors.diffusion_models import DrawingSettings, ImageModelSettings
from actors.quantities import quantity
from actors.settings import Location, check_positive
from jobs.checkpoints.image_model import ImageModelConfig, check_image_models
from jobs.checkpoints.placement import plan_lines
from jobs.items_from import image_prompts, items_output
from jobs.items_from.image_prompts import DrawnPictures, ImagePromptReader, PromptTables, model_of
from jobs.runtime import lifecycle
from jobs.runtime.command_line import cli
from jobs.runtime.configuration.config import FailingRows
from jobs.runtime.configuration.key_types import LISTS, MISSING, conf_group
from jobs.runtime.job_tables import plan_table
from jobs.runtime.outcomes import Manifest, Plan
from jobs.runtime.selection import exclusions
from jobs.runtime.selection.exclusions import Exclusions
from jobs.runtime.stage_contract import Stage
from jobs.store.files import locations
from jobs.store.reading import refuse_absent
from jobs.store.runs.table_run import RunPart
from jobs.store.table_plan import TablePlan, limited

OPTIONS = ("width", "height", "steps", "guidance", "negative_prompt")  # null: left to the model's pipeline


@dataclass
class GenerateImagesConfig(DrawingSettings, FailingRows):
    """Keys of `generate_images`."""

    input: Location[str] = MISSING  # a table of texts, or of items
    texts: Location[str | None] = None  # for a table of items: their texts
    prompt_role: str = "prompt"  # role of the texts that are prompts
    samples: int = 1  # pictures per prompt
    image_model: ImageModelConfig = conf_group("sd3-medium", ImageModelConfig)
    # several of conf/image_model.yaml; each draws `samples` pictures
    image_models: list[Any] = field(default_factory=list, metadata={LISTS: "image_model"})

    def __post_init__(self) -> None:
        check_positive(samples=self.samples)
        super().__post_init__()


def execute(cfg: GenerateImagesConfig) -> Plan | Manifest:
    """Run the job and return the manifests by table, or the plan with plan=true; see the module's docstring.

    Raises:
        InputError: a table, a model or a value is not allowed; nothing was written.
    """
    refuse_absent(cfg.input)
    models: list[ImageModelConfig] = cfg.image_models or [cfg.image_model]
    check_image_models(cfg, models)
    prompts = image_prompts.open_prompts(cfg.input, texts=cfg.texts, role=cfg.prompt_role)
    excluded = exclusions.read_exclusions(cfg.exclusions)
    drawn = [DrawnPictures.by(model, cfg, role=cfg.prompt_role, samples=cfg.samples) for model in models]
    readers = {pictures.model: ImagePromptReader(pictures, prompts.prompts.name) for pictures in drawn}
    plan = limited(_plan(cfg, prompts, models, drawn, excluded), cfg.limit, noun="pictures of each model", by=model_of)
    # The items do not depend on the pictures, so a retry of single pictures does not write them again.
    items = (replace(cfg, retry=[]), image_prompts.items_plan(plan, readers), excluded)
    if not cfg.only_plans:
        items_output.check(*items)
    pictures, names = sum(unit.rows or 0 for unit in plan.units), ", ".join(model.name for model in models)
    lines = [line for model in models for line in plan_lines(cfg, model)]
    note = f"draws {quantity(pictures, 'picture')} with {names}"
    run = lifecycle.begin("generate_images", cfg, plan, excluded, pools=["judge"], note=note, lines=lines)
    if isinstance(run, Plan):
        return run + items_output.describe(*items, job="generate_images")
    for model, reader in zip(models, readers.values(), strict=True):
        _draw(cfg, run.table.part(reader.drawn.has), model, reader, run.excluded)
    images = run.end()
    if run.table.is_trial:  # plan=calibrate: the items are written later, with the remaining pictures
        return Manifest({"images": images}, images.lines, planned=images.planned)
    others = items_output.write(*items, job="generate_images")
    tables = {"images": images, **(others if isinstance(others, Manifest) else {})}
    return Manifest(tables, [*images.lines, *others.lines], planned=[*images.planned, *others.planned])


def _plan(
    cfg: GenerateImagesConfig,
    prompts: PromptTables,
    models: Sequence[ImageModelConfig],
    drawn: Sequence[DrawnPictures],
    excluded: Exclusions,
) -> TablePlan:
    identity = [model.identity for model in models]
    return plan_table(
        cfg,
        "images",
        prompts.units(drawn),
        {**(identity[0] if len(models) == 1 else {"models": identity}), **cfg.options, **prompts.identity},
        instead_of=["image_model", "image_models", *OPTIONS],
        excluded=excluded,
        out=locations.join(locations.absolute(cfg.out), "images"),
        metadata={"image_model": ", ".join(model.rater for model in models)},
        models={model.name: model.rater for model in models},
    )


def _draw(
    cfg: GenerateImagesConfig, part: RunPart, model: ImageModelConfig, reader: ImagePromptReader, excluded: str | None
) -> None:
    from actors.image_generator import ImageGenerator
    from jobs.runtime import stages

    settings = {
        "settings": DrawingSettings.part_of(cfg),
        "model": ImageModelSettings.part_of(model),
        "author": model.rater,
        "licence": model.licence,
        "threads": cfg.resources.judge.threads,
    }
    read = stages.Read(reader, item="image_id", output_item="image_id", excluded=excluded)
    chain = [Stage("judge", ImageGenerator, settings)]
    stages.stream(part, name="generate_images", read=read, stages=chain, resources=cfg.resources)


JOB = cli.Job("generate_images", GenerateImagesConfig, execute, pools=("judge",))

if __name__ == "__main__":
    sys.exit(cli.main("generate_images"))
