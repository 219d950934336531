"""The text-to-image models of a job: their configuration, and the checks that do not need the weights."""

from collections.abc import Sequence
from dataclasses import dataclass

from actors.diffusion_models import ImageModelSettings
from jobs.checkpoints.placement import CheckpointConfig, check_device, check_dtype
from jobs.errors import InputError, as_input_error
from jobs.runtime.cluster import dtypes
from jobs.runtime.configuration.config import Common


@dataclass
class ImageModelConfig(CheckpointConfig, ImageModelSettings):
    """The text-to-image model that draws; `conf/image_model.yaml` has named models."""


def check_image_models(cfg: Common, models: Sequence[ImageModelConfig]) -> None:
    """Check the text-to-image models of a job's configuration, and choose their dtypes.

    With plan=true the models are not looked up.

    Raises:
        InputError: two models have the same checkpoint, or one is not a text-to-image pipeline.
    """
    for model in models:
        dtypes.resolve_model(model, cfg, pool="judge")
    if len({model.rater for model in models}) < len(models):
        names = ",".join(model.name for model in models)
        raise InputError("two have the same checkpoint; name each model once", key="image_models", value=f"[{names}]")
    if not cfg.only_plans:
        from actors.diffusion_models import check_image_model

        for model in models:
            check_dtype(model.dtype, prefix="image_model.")
            check_device(cfg, model.device, prefix="image_model.")
            try:
                check_image_model(model)
            except ValueError as error:
                raise as_input_error(error) from error
