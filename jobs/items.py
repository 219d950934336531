"""Turn a user's file, responses or links into things to be judged -> tables `items`, `texts` and, for URLs, `records`.

    remine items input=set.csv columns.pictures=file pictures.path=photos columns.texts.prompt=prompt out=R/set
    remine items input=set.csv columns.pictures=url columns.targets=labels columns.gold=gold out=R/set
    remine items input=urls.txt out=R/set
    remine items responses='[R/responses/*]' labels='[R/ratings/*]' out=R/judged
    remine items links=R/links/lemma_vision kb.path=R/kb context=article out=R/article
    remine items topics=century out=R/request

Writes OUT/items and OUT/texts; pictures that are given by URL also become OUT/records, which
`remine fetch source=urls input=OUT/records` fetches. Paths are resolved and identified as in
`remine fetch source=folder`, so that its table of images has the same ids. Columns without another role become
attributes.

With links=, the linked pictures (or the items that show them, input_items=) become items with a context from the
knowledge base: the whole article of the best entity, the titles of the k best, the article of the right entity, or
nothing. Each is one condition, and an item keeps its id in all of them.

With topics= there is one item, which is used to ask models for page titles (`remine generate prompt=page_titles`).
"""

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager

from jobs.items_from import file_items, items_output, link_items, response_items
from jobs.items_from.items_config import ItemsConfig, mode_of
from jobs.items_from.items_output import ItemsPlan
from jobs.runtime.command_line import cli
from jobs.runtime.outcomes import Manifest, Plan
from jobs.runtime.selection import exclusions
from jobs.runtime.selection.exclusions import Exclusions

Builder = Callable[[ItemsConfig, Exclusions], AbstractContextManager[ItemsPlan]]
BUILDERS: dict[str, Builder] = {  # key of the mode -> what it writes
    "input": file_items.file_plan,
    "responses": response_items.response_plan,
    "links": link_items.link_plan,
    "topics": file_items.topic_plan,
}


def execute(cfg: ItemsConfig) -> Plan | Manifest:
    """Run the job and return the manifests by table, or the plan with plan=true; see the module's docstring."""
    mode = mode_of(cfg)
    excluded = exclusions.read_exclusions(cfg.exclusions)
    with BUILDERS[mode](cfg, excluded) as plan:
        return items_output.write(cfg, plan, excluded)


JOB = cli.Job("items", ItemsConfig, execute, attributes=file_items.file_attributes)

if __name__ == "__main__":
    sys.exit(cli.main("items"))
