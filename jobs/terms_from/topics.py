"""The categories, topics and regions about which language models list page titles (`conf/topics/`)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from actors.rubrics import checks


@dataclass(frozen=True)
class TopicList:
    """The lists that models are asked about.

    Attributes:
        titles: page titles per response.
        categories: the topics of each category.
    """

    name: str
    titles: int
    categories: dict[str, tuple[str, ...]]
    sub_regions: tuple[str, ...]

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "TopicList":
        """Return the list of topics in `data`, as read from YAML or Hydra.

        Raises:
            ValueError: the data is invalid; the message has the place, the value and what is allowed.
        """
        where = checks.named("topics", data)
        required = ("name", "source", "titles", "categories", "sub_regions")
        checks.check_keys(data, where=where, required=required)
        titles = data["titles"]
        if not isinstance(titles, int) or isinstance(titles, bool) or titles < 1:
            raise ValueError(f"{where}, titles: {titles!r}; must be a number of at least 1")
        categories = {
            category: checks.texts(topics, f"{where}, categories.{category}")
            for category, topics in checks.mapping(data["categories"], f"{where}, categories").items()
        }
        if empty := [category for category, topics in categories.items() if not topics]:
            raise ValueError(f"{where}, categories.{empty[0]}: at least one topic is required")
        if not categories:
            raise ValueError(f"{where}, categories: at least one is required")
        sub_regions = checks.texts(data["sub_regions"], f"{where}, sub_regions")
        if not sub_regions:
            raise ValueError(f"{where}, sub_regions: at least one is required")
        return cls(str(data["name"]), titles, categories, sub_regions)

    @property
    def attributes(self) -> dict[str, str]:
        """The attributes of an item that asks for the list, as shown by `conf/prompt/page_titles.yaml`."""
        return {
            "titles": str(self.titles),
            "categories": "\n".join(f"- {name}: {', '.join(topics)}" for name, topics in self.categories.items()),
            "sub_regions": ", ".join(self.sub_regions),
        }


def spellings(names: Iterable[str]) -> dict[str, str]:
    """Return the names by their lower-case form, so that answers are recognised in any case."""
    return {name.lower(): name for name in names}
