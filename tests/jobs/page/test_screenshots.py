"""The README's pictures of a report show the page as it is."""

from tests.screenshots import HASH, hash_of_shown


def test_pictures_are_newer_than_templates_and_styles():
    assert HASH.read_text().strip() == hash_of_shown(), "run python -m tests.screenshots, and look at docs/*.png"
