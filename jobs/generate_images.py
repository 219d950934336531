"""Draw pictures from prompts with a text-to-image model -> tables `images` and `items`.

    python -m jobs.generate_images input=R/prompts image_model=sd3-medium out=R/generated
    python -m jobs.generate_images input=R/rome/items texts=R/rome/texts samples=6 out=R/generated

`input` is a table of texts (jobs.prompts) or of items with a text of role `prompt` in `texts=`. OUT/images has the
pictures as PNG. OUT/items has one item per picture, with the values or attributes, targets and texts of its prompt, so
that people and models can judge it. Each picture has its own seed, derived from the prompt and its number.
"""

import json
import sys
from dataclasses import dataclass, field, replace
from typing import Any

from omegaconf import MISSING

from actors.diffusion.settings import DrawingSettings, ImageModelSettings
from actors.ids import content_id
from actors.settings import check_positive
from jobs.errors import InputError
from jobs.items_from import image_prompts, output
from jobs.items_from.image_prompts import DrawnPictures, ImagePromptReader, PromptTables
from jobs.items_from.output import ITEMS, ItemsPlan
from jobs.models.image_model import ImageModelConfig
from jobs.models.plan import plan_lines
from jobs.runtime import cli, exclusions, lifecycle
from jobs.runtime.config import Common, plain
from jobs.runtime.exclusions import Exclusions
from jobs.runtime.stage_contract import Stage
from jobs.store import locations
from jobs.store.run import TablePlan, TableRun


@dataclass
class GenerateImagesConfig(DrawingSettings, Common):
    """Keys of `generate_images`."""

    input: str = MISSING  # a table of texts, or of items
    texts: str | None = None  # for a table of items: their texts
    prompt_role: str = "prompt"  # role of the texts that are prompts
    samples: int = 1  # pictures per prompt
    image_model: ImageModelConfig = field(default_factory=ImageModelConfig)

    def __post_init__(self) -> None:
        check_positive(samples=self.samples)
        super().__post_init__()


def execute(cfg: GenerateImagesConfig) -> dict[str, Any] | None:
    """Run the job; see the module's docstring. Returns the manifests by table, None with plan=true.

    Raises:
        InputError: a table, the model or a value is not allowed; nothing was written.
    """
    _check_model(cfg)
    prompts = image_prompts.open_prompts(cfg.input, texts=cfg.texts, role=cfg.prompt_role)
    excluded = exclusions.read_exclusions(cfg.exclusions)
    drawn = _drawn(cfg)
    reader = ImagePromptReader(drawn, prompts.prompts.name)
    plan = _plan(cfg, prompts, drawn, excluded)
    # The items do not depend on the pictures: a retry of single pictures does not write them again.
    items = (replace(cfg, retry=[]), _items_plan(plan, reader), excluded)
    if not cfg.plan:
        output.check(*items)
    note = f"draws {sum(unit.rows or 0 for unit in plan.units):,} pictures with {cfg.image_model.name}"
    run = lifecycle.begin(
        "generate_images", cfg, plan, pools=["judge"], note=note, lines=plan_lines(cfg, cfg.image_model)
    )
    if run is None:
        return output.write(*items, job="generate_images")
    _draw(cfg, run, reader, exclusions.keep(run, excluded))
    manifest = lifecycle.end("generate_images", run, excluded)
    return {"images": manifest, **(output.write(*items, job="generate_images") or {})}


def _check_model(cfg: GenerateImagesConfig) -> None:
    if cfg.plan:
        return
    from actors.diffusion.loading import check_image_model

    try:
        check_image_model(cfg.image_model)
    except ValueError as error:
        raise InputError(f"image_model.checkpoint: {error}") from error


def _drawn(cfg: GenerateImagesConfig) -> DrawnPictures:
    settings = content_id(json.dumps({**cfg.options, "seed": cfg.seed, **cfg.image_model.identity}, sort_keys=True))
    return DrawnPictures(cfg.prompt_role, cfg.samples, cfg.seed, cfg.image_model.rater, settings)


def _plan(cfg: GenerateImagesConfig, prompts: PromptTables, drawn: DrawnPictures, excluded: Exclusions) -> TablePlan:
    return TablePlan(
        out=locations.join(locations.absolute(cfg.out), "images"),
        table="images",
        identity={
            **cfg.image_model.identity,
            **cfg.options,
            "seed": cfg.seed,
            "samples": cfg.samples,
            "prompt_role": cfg.prompt_role,
            **prompts.identity,
            **exclusions.identity(excluded),
        },
        units=prompts.units(drawn),
        config=plain(cfg),
        metadata={"image_model": cfg.image_model.rater},
        derived=True,
        models={cfg.image_model.name: cfg.image_model.rater},
    )


def _items_plan(plan: TablePlan, reader: ImagePromptReader) -> ItemsPlan:
    return ItemsPlan(units=plan.units, identity=plan.identity, read=reader.items, tables=(ITEMS,), derived=True)


def _draw(cfg: GenerateImagesConfig, run: TableRun, reader: ImagePromptReader, excluded: str | None) -> None:
    from actors.image_generator import ImageGenerator
    from jobs.runtime import stages

    model = {
        "settings": DrawingSettings.part_of(cfg),
        "model": ImageModelSettings.part_of(cfg.image_model),
        "author": cfg.image_model.rater,
        "licence": cfg.image_model.licence,
        "threads": cfg.resources.judge.threads,
    }
    read = stages.Read(reader, item="image_id", output_item="image_id", excluded=excluded)
    chain = [Stage("judge", ImageGenerator, model)]
    stages.stream(run, name="generate_images", read=read, stages=chain, resources=cfg.resources)


JOB = cli.Job("generate_images", GenerateImagesConfig, execute)

if __name__ == "__main__":
    sys.exit(cli.main("generate_images"))
