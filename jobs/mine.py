"""Find the records of a corpus whose page title contains a search term -> table `records`.

    remine mine corpus=wit corpus.path='s3://b/wit/*.tsv.gz' terms.path=R/terms out=R/matches
    remine mine corpus=wit_base corpus.path='s3://b/wit_base/*.parquet' terms.path=R/terms out=R/matches

Each file is one work unit. The job only matches: a row is kept if it has the language and its title contains a term,
regardless of case (Century, section 3.2 and appendix E). Rules that need the whole set are in `curate`. `match=word`
requires whole words, `match=exact` whole titles; `fold.*` defines which letters are equal, in terms and titles alike.
`limit=n` reads each file only until it has yielded n records.
"""

import sys
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from actors.quantities import quantity
from actors.titles import MATCHES
from jobs.corpora.terms import FoldConfig, TermsConfig, fingerprint, fold_of, pack, read_terms
from jobs.corpora.wit.reader import WitConfig
from jobs.errors import InputError, check_choice
from jobs.runtime import lifecycle
from jobs.runtime.command_line import cli
from jobs.runtime.configuration.config import ReadingRows
from jobs.runtime.configuration.key_types import conf_group
from jobs.runtime.job_tables import plan_table
from jobs.runtime.outcomes import Manifest, Plan
from jobs.runtime.planning import summary
from jobs.runtime.process.console import say
from jobs.runtime.selection import exclusions
from jobs.store.files import read_ahead
from jobs.store.files.objects import Object
from jobs.store.table_plan import limited
from jobs.store.units import unit_of_file
from jobs.workers.mine import CORPORA, MineUnit

HEADER_THREADS = 16
LETTERS_SHOWN = 20
SUSPECT = 0.5  # share of a term's hits inside longer words above which it is printed


@dataclass
class MineConfig(ReadingRows):
    """Keys of `mine`."""

    corpus: WitConfig = conf_group("wit", WitConfig)
    terms: TermsConfig = field(default_factory=TermsConfig)
    match: str = "substring"  # substring, word or exact
    fold: FoldConfig = field(default_factory=FoldConfig)


def execute(cfg: MineConfig) -> Plan | Manifest:
    """Run the job and return the manifest, or the plan with plan=true; see the module's docstring."""
    _check_choices(cfg)
    fold, corpus = fold_of(cfg.fold), CORPORA[cfg.corpus.name]
    files = corpus.find_files(cfg.corpus.path)
    with ThreadPoolExecutor(HEADER_THREADS) as pool:
        list(pool.map(corpus.check_header, [f.uri for f in files]))
    _check_names(files)
    terms = read_terms(cfg.terms, fold)
    if cfg.match == "substring" and (letters := [term for term in terms if len(term) == 1]):
        say(f"  terms of one character, which many titles contain: {', '.join(letters[:LETTERS_SHOWN])}")
    excluded = exclusions.read_exclusions(cfg.exclusions)
    units = [unit_of_file(f) for f in files]
    plan = plan_table(cfg, "records", units, {"terms": fingerprint(terms)}, excluded=excluded, derived=False)
    plan = limited(plan, cfg.limit, noun="records")
    get_bytes = read_ahead.BLOCK if cfg.corpus.name == "wit" else None
    note = quantity(len(terms), "term")
    run = lifecycle.begin("mine", cfg, plan, excluded, pools=["mine"], note=note, streamed=False, get_bytes=get_bytes)
    if isinstance(run, Plan):
        return run
    from jobs.runtime import stages

    size = 0 if cfg.limit else sum(o.size for t in run.table.todo for o in t.unit.inputs)
    step, unit = (10**6, "MB") if size > 10**7 else (10**3, "kB")  # of compressed input, for the progress line
    stage = stages.Stage(
        "mine",
        MineUnit,
        {
            # Workers read the terms from the table's folder: an argument with a million terms is too large.
            "terms": run.table.keep("terms.json", pack(terms)),
            "excluded": run.excluded,
            "match": cfg.match,
            "fold": fold,
            "corpus": cfg.corpus.name,
            "language": cfg.corpus.language,
            "step": step,
        },
    )
    stages.process(
        run.table, name="mine", stage=stage, resources=cfg.resources, total=size // step or None, counted=unit
    )
    manifest = run.end()
    manifest.lines += _tally_lines(manifest["counts"]["tallies"])
    return manifest


def _check_choices(cfg: MineConfig) -> None:
    check_choice("match", cfg.match, MATCHES)
    check_choice("corpus.name", cfg.corpus.name, CORPORA)


def _tally_lines(tallies: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    for title, tally in (
        ("hits by term", tallies.get("term", {})),
        ("mostly inside longer words (match=word leaves them out)", suspects(tallies)),
        ("files scanned by", tallies.get("scanned_by", {})),
        ("rows read by the csv module", tallies.get("read_by_csv", {})),
    ):
        yield from summary.tally_lines(title, tally)


def suspects(tallies: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    """Return the terms that match mostly inside longer words (pain in Spain), with the number of these hits."""
    hits = tallies.get("term", {})
    return {term: n for term, n in tallies.get("inside_word", {}).items() if n > SUSPECT * hits.get(term, 0)}


def _check_names(files: Iterable[Object]) -> None:
    """Raise InputError if two files have the same name: record ids depend on names, not folders (a corpus may move)."""
    uris: dict[str, str] = {}
    for file in files:
        first = uris.setdefault(PurePosixPath(file.uri).name, file.uri)
        if first != file.uri:
            raise InputError(
                f"{first} and {file.uri} have the same name, and record ids would collide; rename one",
                key="corpus.path",
            )


JOB = cli.Job("mine", MineConfig, execute, pools=("mine",))

if __name__ == "__main__":
    sys.exit(cli.main("mine"))
