"""Preprocessing of a checkpoint, as passed to open_clip."""

from actors.encoders.facts import Preprocessing, complete
from actors.encoders.towers import _cfg


def test_the_preprocessing_of_a_checkpoint_is_passed_on_whole() -> None:
    expected = Preprocessing("longest", "bilinear", (224, 256), (0.1, 0.2, 0.3), (0.4, 0.5, 0.6), 7)
    assert Preprocessing(**complete(_cfg(expected), expected.size)) == expected
