"""The corpora that `mine` reads, by the name in `corpus.name`."""

from collections.abc import Mapping

from jobs.corpora.corpus import Corpus
from jobs.corpora.wit import reader, wit_base

CORPORA: Mapping[str, Corpus] = {"wit": reader, "wit_base": wit_base}
