"""Articles: an encyclopaedia's text about the event that a picture belongs to, and nothing about the picture."""

from jobs.testbed.little_world.facts import MEMORIES, OPINIONS
from jobs.testbed.little_world.scenes import Scene


def title(scene: Scene) -> str:
    """Return the title of the page, which contains the event, a search term."""
    return f"{scene.event} of {scene.country_name}, {scene.year}"


def article(scene: Scene) -> str:
    """Return the article: its country, event and year, what people think of it, and how they remember it."""
    return (
        f"The {scene.event} of {scene.country_name} began in {scene.year}. "
        f"Opinions about it are {OPINIONS[scene.opinion - 1]}. "
        f"People remember it {MEMORIES[scene.memory - 1]}."
    )
