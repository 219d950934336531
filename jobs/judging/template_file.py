"""Read the sentences of `zero_shot template=` from a file of conf/zero_shot_template/ or a user's YAML file."""

from typing import Any

import yaml

from actors.errors import first_line
from jobs.errors import InputError
from jobs.runtime.config_files import CONF
from jobs.store import locations

TEMPLATES = CONF / "zero_shot_template"


def read_template(name: str) -> Any:
    """Return the content of a template's YAML file, not validated (see `actors.zero_shot_rater.ZeroShotTemplate`).

    Args:
        name: the name of a file in conf/zero_shot_template, or a path or s3:// URI that ends in `.yaml`.

    Raises:
        InputError: no such template, or the file is not YAML.
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
