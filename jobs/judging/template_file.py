"""The sentences of `zero_shot template=`: a file of conf/zero_shot_template/, or a YAML file of the user's."""

from typing import Any

import yaml

from actors.errors import first_line
from jobs.errors import InputError
from jobs.runtime.config_files import CONF
from jobs.store import locations

TEMPLATES = CONF / "zero_shot_template"


def read_template(name: str) -> Any:
    """Return the content of a template's YAML file, not yet checked (see `actors.zero_shot_rater.ZeroShotTemplate`).

    Args:
        name: the name of a file in conf/zero_shot_template, or a path or s3:// URI that ends in `.yaml`.

    Raises:
        InputError: no such template, or the file is not YAML.
    """
    uri = locations.absolute(name) if name.endswith(".yaml") else str(TEMPLATES / f"{name}.yaml")
    known = sorted(path.stem for path in TEMPLATES.glob("*.yaml"))
    if not name.endswith(".yaml") and name not in known:
        raise InputError(f"template={name}: no such template; give {', '.join(known)}, or a .yaml file of yours")
    with locations.named_errors(uri):
        data = locations.read_bytes(uri)
    try:
        return yaml.safe_load(data.decode("utf-8-sig"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InputError(f"template={name}: the file is not YAML ({first_line(error)})") from error
