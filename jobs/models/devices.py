"""Devices and dtypes that a config names, refused before a Ray starts and a worker finds out."""

from actors import devices
from jobs.errors import InputError
from jobs.runtime import ray_session
from jobs.runtime.config import Common


def check_device(cfg: Common, key: str, name: str) -> None:
    """Refuse a device that there is not; where a cluster is joined, or for a plan, only what is no device's name.

    Raises:
        InputError: see above.
    """
    try:
        devices.check_device(name)
        if name != "auto" and not cfg.plan and ray_session.address_of(cfg.ray) is None:
            devices.find_device(name)
    except ValueError as error:
        raise InputError(f"{key}: {error}") from error


def check_dtype(key: str, name: str) -> None:
    """Refuse an unknown dtype.

    Raises:
        InputError: see above.
    """
    try:
        devices.check_dtype(name)
    except ValueError as error:
        raise InputError(f"{key}: {error}") from error
