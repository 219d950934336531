"""Parsing of OmegaConf's YAML by libyaml: PyYAML's parser in Python takes a third of the time of composing."""

import functools
from typing import Any

import yaml
from omegaconf import _utils

python_loader = _utils.get_yaml_loader


@functools.cache
def loader() -> Any:
    """Return OmegaConf's loader class, which reads tokens with libyaml if PyYAML was built with it.

    The meaning of the tokens (numbers, duplicate keys, dates) is left to the methods of OmegaConf's class.
    """
    omegaconfs = python_loader()
    if not yaml.__with_libyaml__:
        return omegaconfs
    from yaml.cyaml import CParser  # type: ignore[attr-defined]

    class LibyamlLoader(CParser, omegaconfs):  # type: ignore[misc, valid-type]
        def __init__(self, stream: Any) -> None:
            CParser.__init__(self, stream)
            yaml.constructor.SafeConstructor.__init__(self)
            yaml.resolver.Resolver.__init__(self)

    return LibyamlLoader


def install() -> None:
    """Make `OmegaConf.load` and `OmegaConf.create`, which Hydra calls for each file, use `loader`."""
    _utils.get_yaml_loader = loader
