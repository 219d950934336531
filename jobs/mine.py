"""Find the records of a corpus whose page title contains a search term -> table `records`.

    python -m jobs.mine corpus=wit corpus.path='s3://b/wit/*.tsv.gz' terms.path=R/terms out=R/matches
    python -m jobs.mine corpus=wit_base corpus.path='s3://b/wit_base/*.parquet' terms.path=R/terms out=R/matches

One work unit a file. It only matches: language, and the title contains a term without regard to case
(Century, section 3.2 and appendix E). What needs the whole set is `curate`. `match=word` asks for whole words,
`match=exact` for whole titles; `fold.*` says what counts as the same letter, in terms and titles alike.
"""

import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import PurePosixPath
from typing import Any

import pyarrow as pa

from actors.ids import content_id
from actors.titles import MATCHES, Fold, TitleMatcher
from jobs.corpora.terms import FoldConfig, TermsConfig, fingerprint, fold_of, pack, read_terms, unpack
from jobs.corpora.wit import reader, wit_base
from jobs.corpora.wit.reader import MatchedRow, WitConfig, split_of
from jobs.errors import InputError
from jobs.runtime import cli, exclusions, lifecycle, summary
from jobs.runtime.config import Common, plain
from jobs.runtime.console import say
from jobs.runtime.progress import Reporter
from jobs.store import locations
from jobs.store.locations import Object
from jobs.store.run import TablePlan
from jobs.store.units import unit_of_file
from jobs.store.writer import UnitTask, UnitWriter
from jobs.tables import TABLES, WIT_COLUMNS

ROWS_AT_A_TIME = 1000  # matched rows held before they are written: a few MB of article text
TERMS_COUNTED = 1000  # hits by term kept in a unit's footer, the most frequent
HEADER_THREADS = 16
LETTERS_SHOWN = 20
CORPORA: dict[str, Any] = {
    "wit": reader,
    "wit_base": wit_base,
}  # modules with find_files, check_header, scan_file, scanner
SUSPECT = 0.5  # a term of whose hits more lie inside longer words is named


@dataclass
class MineConfig(Common):
    """Keys of `mine`."""

    corpus: WitConfig = field(default_factory=WitConfig)
    terms: TermsConfig = field(default_factory=TermsConfig)
    match: str = "substring"  # or word, exact
    fold: FoldConfig = field(default_factory=FoldConfig)


def execute(cfg: MineConfig) -> dict[str, Any] | None:
    """Run the job; see the module's docstring. Returns the manifest, None with plan=true."""
    if cfg.match not in MATCHES:
        raise InputError(f"match={cfg.match}: there are {', '.join(MATCHES)}")
    if cfg.corpus.name not in CORPORA:
        raise InputError(f"corpus.name={cfg.corpus.name}: there are {', '.join(CORPORA)}")
    fold, corpus = fold_of(cfg.fold), CORPORA[cfg.corpus.name]
    files = corpus.find_files(cfg.corpus.path)
    with ThreadPoolExecutor(HEADER_THREADS) as pool:
        list(pool.map(corpus.check_header, [f.uri for f in files]))
    _check_names(files)
    terms = read_terms(cfg.terms, fold)
    if cfg.match == "substring" and (letters := [term for term in terms if len(term) == 1]):
        say(f"  terms of one character, which many titles hold: {', '.join(letters[:LETTERS_SHOWN])}")
    excluded = exclusions.read_exclusions(cfg.exclusions)
    plan = TablePlan(
        out=cfg.out,
        table="records",
        identity={
            "corpus": {"name": cfg.corpus.name, "language": cfg.corpus.language},
            "match": cfg.match,
            "fold": asdict(cfg.fold),
            "terms": fingerprint(terms),
            **exclusions.identity(excluded),
        },
        units=[unit_of_file(f) for f in files],
        config=plain(cfg),
        metadata={},
        derived=False,
    )
    run = lifecycle.begin("mine", cfg, plan, pools=["mine"], note=f"{len(terms):,} terms", streamed=False)
    if run is None:
        return None
    from jobs.runtime import stages

    # The workers read the terms from the table's own folder: a million of them do not travel in an argument.
    kept = run.keep("terms.json", pack(terms))
    size = sum(o.size for t in run.todo for o in t.unit.inputs)
    step, counted = (10**6, "MB") if size > 10**7 else (10**3, "kB")  # of compressed input, for the progress line
    known = {"terms": kept, "excluded": exclusions.keep(run, excluded), "match": cfg.match, "fold": fold}
    read = {"corpus": cfg.corpus.name, "language": cfg.corpus.language, "step": step}
    stage = stages.Stage("mine", MineUnit, {**known, **read})
    stages.process(run, name="mine", stage=stage, resources=cfg.resources, total=size // step, counted=counted)
    manifest = lifecycle.end("mine", run, excluded)
    tallies = manifest["counts"]["tallies"]
    summary.show_tally("hits by term", tallies.get("term", {}))
    summary.show_tally("mostly inside longer words (match=word leaves them out)", _suspects(tallies))
    summary.show_tally("files scanned by", tallies.get("scanned_by", {}))
    summary.show_tally("rows read by the csv module", tallies.get("read_by_csv", {}))
    return manifest


def _suspects(tallies: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    """The terms most of whose hits stand inside longer words, with these hits: pain in Spain."""
    hits = tallies.get("term", {})
    return {term: n for term, n in tallies.get("inside_word", {}).items() if n > SUSPECT * hits.get(term, 0)}


def _check_names(files: Iterable[Object]) -> None:
    """Refuse two files of one name: record_ids are made from it, so that a moved corpus keeps them."""
    seen: dict[str, str] = {}
    for file in files:
        other = seen.setdefault(PurePosixPath(file.uri).name, file.uri)
        if other != file.uri:
            raise InputError(f"corpus.path: {other} and {file.uri} have one name; record ids could not be told apart")


class MineUnit:
    """Reads one file and writes the records that match; the automaton is built once an actor."""

    def __init__(
        self, *, terms: str, excluded: str | None, match: str, fold: Fold, corpus: str, language: str | None, step: int
    ) -> None:
        # Arrow's own allocator keeps what the rows of a file needed: 6 MB of the 244 of a worker.
        pa.set_memory_pool(pa.system_memory_pool())
        self._sources = unpack(locations.read_bytes(terms))
        self._excluded = exclusions.kept(excluded)
        self._matcher, self._in_words = TitleMatcher(self._sources, match=match, fold=fold), match == "substring"
        self._corpus, self._language, self._step = CORPORA[corpus], language, step
        self._bytes_left = 0  # read and not yet told, less than a step

    def __call__(self, task: UnitTask, writer: UnitWriter, report: Reporter) -> None:
        uri = task.unit.inputs[0].uri
        seen: Counter[str] = Counter()
        hits: Counter[str] = Counter()
        inside: Counter[str] = Counter()
        held: list[dict[str, Any]] = []

        def progress(read: int, rows: int) -> None:
            steps, self._bytes_left = divmod(read + self._bytes_left, self._step)
            report.add(steps, rows=rows)

        scanned = self._corpus.scan_file(
            uri,
            language=self._language,
            matcher=self._matcher,
            counts=writer.counts,
            reject=writer.reject,
            progress=progress,
        )
        for hit in scanned:
            row = record(uri, hit, self._sources, seen)
            if self._excluded.hit(row["image_id"], row["image_url"]):
                writer.counts.filtered["excluded"] += 1
                continue
            held.append(row)
            hits.update(hit.terms)
            if self._in_words:
                inside.update(self._matcher.inside_words(hit.fields["page_title"] or "", hit.terms))
            report.add(0, matched=1)
            if len(held) >= ROWS_AT_A_TIME:
                writer.write(_table(held))
                held.clear()
        if held:
            writer.write(_table(held))
        writer.counts.tallies["scanned_by"] = {self._corpus.scanner(): 1}
        counted = dict(hits.most_common(TERMS_COUNTED))
        writer.counts.tallies["term"] = counted
        if within := {term: n for term, n in inside.items() if term in counted}:
            writer.counts.tallies["inside_word"] = within
        exclusions.count(writer.counts, self._excluded.take_matched())


def record(uri: str, hit: MatchedRow, sources: Mapping[str, Sequence[str]], seen: Counter[str]) -> dict[str, Any]:
    """A row of `records`. `seen` counts equal rows of the file, so that a repeated row has an id of its own."""
    name = PurePosixPath(uri).name
    content = content_id(name, *(hit.fields[c] or "" for c in WIT_COLUMNS))
    seen[content] += 1
    return {
        "record_id": content if seen[content] == 1 else content_id(content, str(seen[content])),
        "image_id": content_id(hit.fields["image_url"] or ""),
        **hit.fields,
        "split": split_of(uri),
        "terms": hit.terms,
        "methods": sorted({source for term in hit.terms for source in sources[term]}),
    }


def _table(rows: Iterable[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=TABLES["records"].schema())


JOB = cli.Job("mine", MineConfig, execute)

if __name__ == "__main__":
    sys.exit(cli.main("mine"))
