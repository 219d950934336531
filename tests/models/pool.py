"""The pictures that the two models are trained on, at the size that they see."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from jobs.testbed.little_world.drawing import paint
from jobs.testbed.little_world.scenes import Scene, random_scene

TRAINED, HELD_OUT = 1, 2  # seeds of the world: no picture of the second is in the first
SEEN = 64  # pixels per side


def scenes(n: int, *, seed: int) -> list[Scene]:
    """Return the first `n` scenes of a seed."""
    return [random_scene(number, seed=seed) for number in range(n)]


def pixels(pictured: Sequence[Scene], *, seed: int, cache: Path | None = None) -> np.ndarray:
    """Return the pictures, [n, 64, 64, 3] uint8, resampled as both models' processors do; kept in the file `cache`."""
    if cache and cache.exists():
        return np.load(cache)
    sized = [np.asarray(paint(one, seed=seed).resize((SEEN, SEEN), Image.Resampling.BICUBIC)) for one in pictured]
    array = np.stack(sized)
    if cache:
        np.save(cache, array)
    return array
