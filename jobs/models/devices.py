"""Checks of the device and dtype that a configuration names, before Ray starts."""

from actors import devices
from jobs.errors import InputError
from jobs.runtime.cluster import ray_session
from jobs.runtime.configuration.config import Common


def check_device(cfg: Common, name: str, *, prefix: str = "") -> None:
    """Check that a device exists; with a cluster or plan=true, only that the name is well-formed.

    Args:
        prefix: what precedes the key `device` in messages, such as `embedder.`.

    Raises:
        InputError: the device does not exist, or `name` is not the name of a device.
    """
    try:
        devices.check_device(name)
        if name != "auto" and not cfg.only_plans and ray_session.address_of(cfg.ray) is None:
            devices.find_device(name)
    except ValueError as error:
        raise InputError(f"{prefix}{error}") from error


def check_dtype(name: str, *, prefix: str = "") -> None:
    """Check the name of a dtype.

    Args:
        prefix: what precedes the key `dtype` in messages, such as `embedder.`.

    Raises:
        InputError: the dtype is unknown.
    """
    try:
        devices.check_dtype(name)
    except ValueError as error:
        raise InputError(f"{prefix}{error}") from error
