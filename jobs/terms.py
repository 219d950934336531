"""Collect search terms from a knowledge graph or from language models -> table `terms` below one folder.

    remine terms source=wikidata source.path='latest-all.json.bz2' out=R/graph
    remine terms source=wikidata entities=R/graph/entities punctuation=strip out=R/stripped
    remine terms source=language_model 'responses=[R/titles/*]' out=R/models

From a JSON dump of Wikidata: the persons, events, organizations and locations that are linked to the concepts of
`conf/concepts` (Century, section 3.2, appendices C and D). Writes R/graph/class_edges, R/graph/entities and
R/graph/terms; with `entities=` only the last. From responses to `prompt=page_titles` (appendix G): the titles that
models list as JSON lines. Writes R/models/terms.
"""

import sys

from jobs.runtime.command_line import cli
from jobs.runtime.configuration.config import check_plan
from jobs.runtime.outcomes import Manifest, Plan
from jobs.terms_from.graph_passes import GraphInput, write_entities
from jobs.terms_from.graph_terms import write_terms
from jobs.terms_from.model_terms import write_model_terms
from jobs.terms_from.terms_config import LANGUAGE_MODEL, TermSourcesConfig
from jobs.workers.wikidata import ClassUnit, EntityUnit


def execute(cfg: TermSourcesConfig) -> Plan | Manifest:
    """Run the job and return the manifest of the terms, or the plan with plan=true; see the module's docstring.

    Raises:
        InputError: the value of a key is not allowed, or an input cannot be used.
        RunError: a worker failed.
    """
    cfg.check()
    check_plan(cfg.plan, calibrates=False)
    if cfg.source.name == LANGUAGE_MODEL:
        return write_model_terms(cfg)
    graph = GraphInput.of(cfg)
    if cfg.entities is None:
        planned = write_entities(cfg, graph, class_unit=ClassUnit, entity_unit=EntityUnit)
        if planned is not None:
            return planned
    return write_terms(cfg, graph)


JOB = cli.Job("terms", TermSourcesConfig, execute, pools=("mine",))

if __name__ == "__main__":
    sys.exit(cli.main("terms"))
