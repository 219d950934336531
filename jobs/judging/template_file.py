"""The sentences of `zero_shot template=`, from a file of conf/zero_shot_template/ or a user's YAML file."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import yaml

from actors.errors import first_line
from actors.ids import content_id
from jobs.errors import InputError
from jobs.judging import kept_rubric
from jobs.judging.kept_rubric import KeptRubric
from jobs.judging.targets import read_targets
from jobs.runtime.configuration.config_files import CONF
from jobs.runtime.configuration.named_keys import with_option
from jobs.store.files import locations

if TYPE_CHECKING:
    from actors.zero_shot_rater import ZeroShotTemplate

TEMPLATES = CONF / "zero_shot_template"


@dataclass(frozen=True)
class Sentences:
    """The sentences that pictures are compared with.

    Attributes:
        template: the checked template.
        data: the content of its file.
        targets: labels for items without their own.
    """

    template: "ZeroShotTemplate"
    data: Mapping[str, Any]
    targets: tuple[str, ...]

    @property
    def identity(self) -> dict[str, Any]:
        """Return the part of a run's identity that describes the sentences."""
        template = {"name": self.template.name, "hash": content_id(repr(self.template))}
        return {"template": template, "targets": content_id(*self.targets)}

    @property
    def kept(self) -> KeptRubric:
        """Return what a table of ratings keeps of the template."""
        levels = [(level.value, level.phrase, level.score) for level in self.template.levels]
        return kept_rubric.of_levels(
            self.template.name, self.template.question, self.template.sentence, levels, self.data
        )


def read_sentences(template: str, targets: Any) -> Sentences:
    """Return the sentences of `template=` about the labels of `targets=`.

    Args:
        template: as in `read_template`.
        targets: as in `jobs.judging.targets.read_targets`.

    Raises:
        InputError: a file does not exist or cannot be used.
    """
    from actors.zero_shot_rater import ZeroShotTemplate

    labels = read_targets(targets) or ()
    data = read_template(template)
    try:
        return Sentences(ZeroShotTemplate.from_dict(data), data, labels)
    except ValueError as error:
        raise InputError(with_option(first_line(error), "zero_shot", {"template": template})) from error


def read_template(name: str) -> Any:
    """Return the content of a template's YAML file, not validated (see `actors.zero_shot_rater.ZeroShotTemplate`).

    Args:
        name: the name of a file in conf/zero_shot_template, or a path or s3:// URI that ends in `.yaml`.

    Raises:
        InputError: there is no such template, or the file is not YAML.
    """
    uri = locations.absolute(name) if name.endswith(".yaml") else str(TEMPLATES / f"{name}.yaml")
    shipped = sorted(path.stem for path in TEMPLATES.glob("*.yaml"))
    if not name.endswith(".yaml") and name not in shipped:
        raise InputError(
            f"template={name}: no such template; must be one of {', '.join(shipped)}, or your own .yaml file"
        )
    with locations.named_errors(uri):
        data = locations.read_bytes(uri)
    try:
        return yaml.safe_load(data.decode("utf-8-sig"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InputError(f"template={name}: not valid YAML ({first_line(error)})") from error
