"""Bad input of every kind: one sentence for a person, exit code 2, and nothing written."""

import gzip
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jobs.runtime.command_line import cli
from jobs.runtime.configuration.key_types import UNKNOWN, type_of
from jobs.store.files import s3
from tests.cases import check_cases
from tests.factories import FIVE, picture, rating, record, write_records, write_table
from tests.jobs.store.answering import answering, in_environment


@pytest.fixture
def no_services() -> Iterator[None]:
    """No credentials of S3 in the environment, and no model hub; other tests' credentials are read again afterwards."""
    with pytest.MonkeyPatch.context() as patch:
        for variable in [variable for variable in os.environ if variable.startswith("AWS_")]:
            patch.delenv(variable)
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        patch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
        s3.forget_settings()
        yield
    s3.forget_settings()


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A folder with inputs of several kinds, right and wrong."""
    header = "language\tpage_url\timage_url\tpage_title\tis_main_image\n"
    (tmp_path / "good.tsv").write_text(header)
    (tmp_path / "terms.csv").write_text("term\nwar\n")
    (tmp_path / "narrow.tsv.gz").write_bytes(gzip.compress(b"language\tpage_url\n"))
    (tmp_path / "empty.tsv").write_text("")
    (tmp_path / "cut.tsv.gz").write_bytes(gzip.compress(header.encode())[:12])
    (tmp_path / "foreign").mkdir()
    pq.write_table(pa.table({"x": [1]}), tmp_path / "foreign" / "x.parquet")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "x.parquet").write_bytes(b"half a file")
    (tmp_path / "bare").mkdir()
    (tmp_path / "page").mkdir()
    (tmp_path / "page" / "index.html").write_text("my thesis")
    (tmp_path / "raters.csv").write_text("rater,item,value\nada,x,1\n")
    (tmp_path / "binary").write_bytes(bytes(range(128, 256)))
    write_records(str(tmp_path / "matches"), [[record("a")]])
    write_table(tmp_path / "pictures", "images", [picture(1)])
    write_table(tmp_path / "ratings", "ratings", [rating("a", "m", "q", "1")], rubric=FIVE)
    pq.write_table(pa.table({"x": [1]}), tmp_path / "rows.parquet")
    (tmp_path / "list.yaml").write_text("- a\n")
    (tmp_path / "mood.yaml").write_text("name: mood\nquestions: [{name: a, answers: [1, 2]}, {name: b, text: B?}]\n")
    return tmp_path


MINE = ["mine", "terms.path={f}/terms.csv", "out={f}/out"]
JUDGE = ["judge", "input={f}/pictures", "model=local-tiny", "out={f}/out"]
# What users have tried: the arguments, and parts of the message. The first of several begins it: the key and its value;
# the others say what is allowed, and what to do.
BAD: dict[str, tuple[list[str], str | tuple[str, ...]]] = {
    "missing file": (
        [*MINE, "corpus.path={f}/none.tsv"],
        ("corpus.path={f}/none.tsv: does not exist", "{f} has bare, "),
    ),
    "empty glob": ([*MINE, "corpus.path={f}/*.nope"], ("corpus.path={f}/*.nope: no file matches", "{f} has bare, ")),
    "empty folder": ([*MINE, "corpus.path={f}/bare"], "{f}/bare: no file matches; the folder is empty"),
    "no such column": (
        [*MINE, "corpus.path={f}/narrow.tsv.gz"],
        ("corpus.path={f}/narrow.tsv.gz: no column image_url, page_title", "remine items"),
    ),
    "empty file": ([*MINE, "corpus.path={f}/empty.tsv"], "{f}/empty.tsv: empty"),
    "truncated header": ([*MINE, "corpus.path={f}/cut.tsv.gz"], "{f}/cut.tsv.gz: the compressed file ends"),
    "no terms": (
        ["mine", "terms.path={f}/none.csv", "corpus.path={f}/good.tsv", "out={f}/out"],
        ("terms.path={f}/none.csv: does not exist", "{f} has"),
    ),
    "no scheme": ([*MINE, "corpus.path=gs://b/x"], "gs://b/x"),
    "unknown key": (
        [*MINE, "corpus.path={f}/good.tsv", "nokey=1"],
        ("nokey=1: no such key; allowed: budget, ",),
    ),
    "unknown option": (
        [*MINE, "corpus.path={f}/good.tsv", "resources=x"],
        ("resources=x: no such option", "must be one of cluster, ", "or your own .yaml file"),
    ),
    "mistyped": ([*MINE, "corpus.path={f}/good.tsv", "resume=maybe"], ("resume=maybe: ", "must be true or false")),
    "misspelt key": (
        [*MINE, "corpus.pth=x"],
        ("corpus.pth=x: no such key", "did you mean corpus.path?", "allowed in corpus: "),
    ),
    "letters swapped": (
        [*MINE, "corpus=wti", "corpus.path={f}/good.tsv"],
        ("corpus=wti: no such option", "did you mean wit?", "must be one of wit, wit_base"),
    ),
    "misspelt model": (
        ["judge", "input={f}/matches", "model=local-tinny", "out={f}/out"],
        ("model=local-tinny: no such option", "did you mean local-tiny?", "must be one of "),
    ),
    "misspelt rule": (
        [*MINE, "corpus.path={f}/good.tsv", "match=words"],
        ("match=words: must be one of substring, word, exact", "did you mean word?"),
    ),
    "no such local model": (
        ["judge", "input={f}/pictures", "model.checkpoint=local:nosuch", "out={f}/out"],
        ("model.checkpoint=local:nosuch: no such local model", "must be one of demo-encoder"),
    ),
    "a key of another job": (
        ["judge", "input={f}/matches", "--corpus.language", "en"],
        ("--corpus.language=en: no such key; allowed: ",),
    ),
    "not given": (["mine"], ("corpus.path=, out=, terms.path=: required", "--help")),
    "unknown option with dashes": (
        ["mine", "--verbose"],
        ("--verbose: no such key", "did you mean ray.verbose?", "allowed: "),
    ),
    "option without a value": ([*MINE, "--corpus.path"], "--corpus.path: a value is missing"),
    "a glob that the shell expanded": (
        [*MINE, "--corpus.path", "{f}/good.tsv", "{f}/empty.tsv"],
        "the shell made several words of corpus.path=: quote it, as in 'corpus.path={f}/*.tsv'",
    ),
    "a space after =": (
        ["mine", "corpus.path=", "{f}/good.tsv", "terms.path={f}/terms.csv", "out={f}/out"],
        "corpus.path= has no value: remove the space after =, as in corpus.path={f}/good.tsv",
    ),
    "ratings below a file": (
        [
            "judge",
            "input={f}/pictures",
            "model=local-tiny",
            "rubric=cultural_relevance",
            "targets=[a]",
            "out={f}/good.tsv/out",
        ],
        ("out={f}/good.tsv/out: {f}/good.tsv is a file", "use another out="),
    ),
    "a table below a file": (
        ["mine", "corpus.path={f}/good.tsv", "terms.path={f}/terms.csv", "out={f}/good.tsv/deeper/out"],
        ("out={f}/good.tsv/deeper/out: {f}/good.tsv is a file", "where a folder is needed", "use another out="),
    ),
    "a list for a path": (
        [*MINE, "corpus.path=[a,b]"],
        ("corpus.path={cwd}/[a,b]: no file matches", "not a list", "without brackets"),
    ),
    "a list for a table": (
        ["report", "ratings=[{f}/pictures]", "embeddings=[{f}/e]", "out={f}/out"],
        ("embeddings={cwd}/[{f}/e]: no table here", "not a list", "without brackets"),
    ),
    "a list in two pairs of quotes": (
        ["report", "ratings='[{f}/pictures]'", "out={f}/out"],
        ("ratings='[{f}/pictures]': no table matches", "one pair of quotes"),
    ),
    "a number in words": ([*MINE, "ray.num_cpus=two"], ("ray.num_cpus=two: must be a whole number",)),
    "a Boolean without a value": ([*MINE, "overwrite"], "use overwrite=true or --overwrite"),
    "a key without its group": (
        [*MINE, "lang=en"],
        ("lang=en: no such key", "did you mean corpus.language?", "allowed: "),
    ),
    "a misspelt file": (
        [*MINE, "corpus.path={f}/god.tsv"],
        ("corpus.path={f}/god.tsv: does not exist", "did you mean {f}/good.tsv?"),
    ),
    "a model of the hub": (
        ["judge", "input={f}/matches", "model=Qwen/Qwen2.5-VL-7B", "out={f}/out"],
        "no such option (a model of the hub or a folder is model.checkpoint=Qwen/Qwen2.5-VL-7B, and in models= ",
    ),
    "a rubric without its ending": (
        ["judge", "input={f}/matches", "rubric={f}/mood", "out={f}/out"],
        ("rubric={f}/mood: no such option (did you mean {f}/mood.yaml?)",),
    ),
    "no such rubric": (
        ["judge", "input={f}/matches", "rubric={f}/none.yaml", "out={f}/out"],
        ("rubric={f}/none.yaml: does not exist", "{f} has "),
    ),
    "a rubric of a similar name": (
        [*JUDGE, "rubric=culture"],
        ("rubric=culture: no such option", "did you mean cultural_relevance?", "or your own .yaml file"),
    ),
    "all mistakes of a rubric": (
        [*JUDGE, "rubric={f}/mood.yaml"],
        ("rubric={f}/mood.yaml: question 'a': missing key 'text'; required are ", "; also: question 'b': missing "),
    ),
    "a label for a list": (
        ["judge", "input={f}/matches", "rubric=cultural_relevance", "targets=Peru", "out={f}/out"],
        ("targets=Peru: no such file, and no such list", "world_religions", "as a list, targets=[Peru]"),
    ),
    "a misspelt file of targets": (
        ["judge", "input={f}/matches", "rubric=cultural_relevance", "targets={f}/term.csv", "out={f}/out"],
        ("targets={f}/term.csv: does not exist; did you mean {f}/terms.csv?",),
    ),
    "no table": (
        ["curate", "input={f}/bare", "out={f}/out"],
        ("input={f}/bare: no table here", "expected records (written by remine mine, "),
    ),
    "a file for a table": (
        ["report", "ratings={f}/raters.csv", "out={f}/out"],
        ("ratings={f}/raters.csv: is a file, and a table is a folder", "import_ratings"),
    ),
    "a header without rows": (
        [
            "report",
            "input={f}/good.tsv",
            *(f"columns.{key}=page_url" for key in ("item", "rater", "value")),
            "out={f}/out",
        ],
        "input={f}/good.tsv: has no rows",
    ),
    "nothing to view": (["view", "{f}/none"], ("inputs={f}/none: no table here", "{f} has ")),
    "no place": (
        ["curate", "input={f}/none", "out={f}/out"],
        ("input={f}/none: no table here", "expected records (written by ", "{f} has "),
    ),
    "foreign table": (["curate", "input={f}/foreign", "out={f}/out"], "not a table of remine; expected records"),
    "broken table": (["curate", "input={f}/broken", "out={f}/out"], "x.parquet: not a readable Parquet file"),
    "wrong table": (
        ["embed", "input={f}/matches", "embedder=local-tiny", "out={f}/out"],
        ("input={f}/matches: is a table 'records', expected images (written by remine fetch, ", ") or texts ("),
    ),
    "wrong table for a list": (
        ["report", "ratings={f}/matches", "out={f}/out"],
        ("ratings={f}/matches: is a table 'records', expected ratings", "(written by remine judge, "),
    ),
    "wrong table for a model": (
        ["judge", "input={f}/matches", "model=local-tiny", "out={f}/out"],
        ("input={f}/matches: is a table 'records', expected images (written by remine fetch, ", ") or items ("),
    ),
    "the table of another key": (
        [*JUDGE, "rubric=century_labels", "records={f}/pictures"],
        ("records={f}/pictures: is a table 'images', expected records",),
    ),
    "one table for two keys": (
        ["report", "ratings=[{f}/ratings]", "images={f}/matches", "records={f}/matches", "out={f}/out"],
        ("images={f}/matches: is a table 'records', expected images",),
    ),
    "the table of a key for another one": (
        ["pairs", "input={f}/pictures", "texts={f}/pictures", "out={f}/out"],
        ("input={f}/pictures: is a table 'images', expected items",),
    ),
    "foreign out": (["curate", "input={f}/matches", "out={f}/foreign"], "{f}/foreign: not empty"),
    "out in a file": (["curate", "input={f}/matches", "out={f}/good.tsv/x"], "{f}/good.tsv/x: "),
    "out is the input": (
        ["curate", "input={f}/matches", "out={f}/matches"],
        "out={f}/matches: is the table that this job reads",
    ),
    "out inside a table": (
        ["curate", "input={f}/matches", "out={f}/matches/chosen"],
        "out={f}/matches/chosen: inside table {f}/matches",
    ),
    "another table": (
        ["import_ratings", "input={f}/raters.csv", "table=raters", "out={f}/matches"],
        ("out={f}/matches: a table 'records' exists", "this job writes 'raters'", "use another out="),
    ),
    "another configuration": (
        [*MINE, "corpus.path={f}/good.tsv", "out={f}/matches"],
        (
            "out={f}/matches: written with another configuration: ",
            "was not set, now ",
            "use another out= or overwrite=",
        ),
    ),
    "no such column of terms": (
        [*MINE, "corpus.path={f}/good.tsv", "terms.column=word"],
        ("terms.path={f}/terms.csv: no column word", "there are term", "choose one with terms.column="),
    ),
    "Parquet as TSV": (
        [*MINE, "corpus.path={f}/rows.parquet"],
        ("corpus.path={f}/rows.parquet: the format is Parquet", "corpus=wit reads .tsv", "corpus=wit_base reads "),
    ),
    "TSV as Parquet": (
        [*MINE, "corpus=wit_base", "corpus.path={f}/good.tsv"],
        ("corpus.path={f}/good.tsv: ", "none of them .parquet", "corpus=wit reads TSV"),
    ),
    "the size of a draw": (
        ["curate", "input={f}/matches", "out={f}/out", "size=5"],
        ("size=5: no such key", "did you mean draw.n?", "allowed: "),
    ),
    "no credentials": (
        [*MINE, "corpus.path=s3://bucket/x.tsv"],
        ("corpus.path=s3://bucket/x.tsv: no AWS credentials", "set AWS_ACCESS_KEY_ID and ", "AWS_PROFILE="),
    ),
    "no contact": (
        ["fetch", "source=urls", "input={f}/matches", "out={f}/out"],
        ("source.contact=: required", "an e-mail address or web page", "for example source.contact="),
    ),
    "an invented contact": (
        ["fetch", "source=urls", "source.contact=you@example.com", "input={f}/matches", "out={f}/out"],
        ("source.contact=you@example.com: a placeholder", "use an address "),
    ),
    "no folder of pictures": (
        ["fetch", "source=folder", "input={f}/matches", "out={f}/out"],
        ("source.path=: required with source=folder", "where the pictures are", "source=urls"),
    ),
    "a folder without pictures": (
        ["fetch", "source=folder", "source.path={f}/bare", "input={f}/matches", "out={f}/out"],
        ("source.path={f}/bare: no file matches", "the folder is empty"),
    ),
    "an attribute that no item has": (
        ["report", "ratings={f}/ratings", "metrics.disaggregate=[region]", "out={f}/out"],
        (
            "metrics.disaggregate=region: no item has this attribute",
            "must be one of target",
            "add its table with items=",
        ),
    ),
    "groups of raters without raters": (
        ["report", "ratings={f}/ratings", "metrics.groups=[age]", "out={f}/out"],
        ("metrics.groups=[age]: needs a table of raters", "set raters="),
    ),
    "a folder of tables": (["curate", "input={f}", "out={f}/out"], "{f}: a folder of several tables: matches"),
    "no value": (["fetch", "source.path={f}", "input=", "out={f}/out"], "input=: empty value"),
    "plan for a foreign out": (
        ["curate", "input={f}/matches", "out={f}/foreign", "plan=true"],
        "{f}/foreign: not empty",
    ),
    "a file for a folder": (
        ["fetch", "source.path={f}/terms.csv", "input={f}/matches", "out={f}/out"],
        "source.path={f}/terms.csv: ",
    ),
    "a page of others": (
        ["report", "input={f}/raters.csv", "out={f}/page"],
        "out={f}/page: this job did not write its index.html",
    ),
    "a page of others, report": (["report", "ratings=[{f}/matches]", "out={f}/page"], "records', expected ratings"),
    "labels that are no text": (
        ["judge", "input={f}/matches", "model=local-tiny", "targets={f}/binary", "out={f}/out"],
        "targets={f}/binary: ",
    ),
    "empty out": (["curate", "input={f}/matches", "out="], ("out=: empty value; the key is required",)),
    "unknown status": (["curate", "input={f}/matches", "out={f}/out", "retry=[bad]"], "retry=bad: no such status"),
    "no pictures": (
        ["fetch", "source.path={f}/none", "out={f}/out"],
        ("source.path={f}/none: does not exist", "{f} has "),
    ),
    "no times": (["verify", "-v"], "-v: only for jobs that use Ray"),
    "verify nothing": (["verify", "input={f}/bare"], "{f}/bare: no table here"),
    "report nothing": (["report", "out={f}/out"], "set ratings="),
    "GPUs that the machine does not have": (
        [*MINE, "corpus.path={f}/good.tsv", "resources.mine.num_gpus=99"],
        ("resources.mine.num_gpus=99: this run needs ", " has 0; ", "use resources="),
    ),
    "more actors than the machine has CPUs for": (
        [*MINE, "corpus.path={f}/good.tsv", "resources.mine.actors=9999"],
        ("resources.mine.actors=9999: this run needs ", "lower resources.mine.actors or resources.mine.num_cpus"),
    ),
    "a group of keys for a key": (
        [*MINE, "corpus.path={f}/good.tsv", "resources.mine=4"],
        ("resources.mine=4: holds several keys", "set one of resources.mine.actors="),
    ),
    "no such source of terms": (
        ["terms", "source=other", "out={f}/out"],
        ("source=other: no such option", "must be one of language_model, wikidata"),
    ),
    "a rubric for a pipeline": (
        ["run", "pipeline={f}/mood.yaml", "out={f}/out"],
        ("pipeline={f}/mood.yaml: not a file of pipeline=", "did you mean pipeline=study rubric={f}/mood.yaml?"),
    ),
    "a rubric without its key": (["run", "{f}/mood.yaml"], "did you mean pipeline=study rubric={f}/mood.yaml?"),
    "a rubric for a model": (
        ["judge", "input={f}/pictures", "model={f}/mood.yaml", "out={f}/out"],
        ("model={f}/mood.yaml: not a file of model=", "did you mean rubric={f}/mood.yaml?"),
    ),
    "a path of Windows": (
        ["judge", "input=C:\\photos", "model=local-tiny", "out={f}/out"],
        ("input={cwd}/C:\\photos: no table here", "C:\\photos is /mnt/c/photos"),
    ),
    "spaces around =": (["run", "pipeline=study", "by", "=", "region"], "use by=region or --by region"),
    "two keys in quotes": (
        [*JUDGE, "limit=2 seed=1"],
        ("limit=2 seed=1: must be a whole number", "write each key as a word, without quotes around both"),
    ),
    "a text of two words": (["report", "title=My", "report"], "quote a value that has spaces, as in 'title=My report'"),
    "a page for a table": (
        ["report", "ratings={f}/page", "out={f}/out"],
        ("ratings={f}/page: no table here", "open {f}/page/index.html in a browser"),
    ),
    "rows for a table": (
        ["report", "ratings={f}/raters.csv", "out={f}/out"],
        ("ratings={f}/raters.csv: is a file", "import_ratings people's answers"),
    ),
    "a run for its tables": (
        ["report", "ratings=[{f}]", "out={f}/out"],
        ("ratings={f}: a folder of several tables: ", "did you mean {f}/ratings?"),
    ),
    "a page for a folder": (
        ["report", "ratings={f}/ratings", "out={f}/page.html"],
        ("out={f}/page.html: a folder is written there, not a file", "as in out=page"),
    ),
    "the name of a file for a folder": (
        [*JUDGE[:-1], "out={f}/answers.csv"],
        ("out={f}/answers.csv: a folder is written there", "as in out=answers"),
    ),
    "a key of a pipeline's step": (
        ["run", "pipeline=study", "temperature=0.5"],
        ("temperature=0.5: no such key", "did you mean +profile.set.judge.temperature?"),
    ),
    "a key of another of a study's jobs": (
        [*JUDGE, "per_item=2"],
        ("per_item=2: no such key", "per_item is a key of annotate"),
    ),
    "a question as a key": ([*JUDGE, "prompt=Sad?"], ("prompt=Sad?: no such key (questions, their wording", "rubric=")),
    "a device": ([*JUDGE, "device=cuda"], ("device=cuda: no such key (resources=gpu-node runs models on GPUs)",)),
    "a host": (["view", "{f}", "--host", "0.0.0.0"], ("--host=0.0.0.0: no such key (only this machine",)),
    "a model behind an API": (
        [
            "run",
            "pipeline=study",
            "set={f}/raters.csv",
            "photos={f}",
            "rubric={f}/mood.yaml",
            "models=[gpt-4o]",
            "out={f}/out",
        ],
        ("models=gpt-4o: no such option (models run on your machines",),
    ),
    "an option before a key": (["judge", "--dry-run", "out={f}/out"], ("--dry-run: no such key (did you mean plan?)",)),
    "American spelling": (
        ["release", "license=cc-by-4.0"],
        ("license=cc-by-4.0: no such key (did you mean card.licence?)",),
    ),
    "a group of one key": (
        ["items", "pictures={f}/bare"],
        ("pictures={f}/bare: holds several keys; did you mean pictures.path={f}/bare?",),
    ),
    "a metric": (
        ["report", "metrics=kappa"],
        ("metrics=kappa: holds several keys (all metrics of the data are computed",),
    ),
    "an interval's method": (["report", "metrics.bootstrap=9"], "no such key (intervals have 95 %; "),
    "a study's name of two words": (["init", "my study"], ("name=my study: must be", "did you mean my_study?")),
    "a folder of nothing": (["ls", "{f}/gone"], ("inputs={f}/gone: no table here or below", "{f} has ")),
    "a model of the hub while offline": (
        ["judge", "input={f}/pictures", "model.checkpoint=org/nothing", "model.revision=null", "out={f}/out"],
        ("model.checkpoint=org/nothing: revision main is not in the cache", "HF_HUB_OFFLINE", "use local:NAME or a "),
    ),
    "an unknown dtype": (
        [*JUDGE, "model.dtype=float8"],
        ("model.dtype=float8: must be one of auto, float32",),
    ),
    "an unknown layout": ([*JUDGE, "layout=slow"], ("layout=slow: rubric ", "must be one of ")),
    "one of several models": (
        [*JUDGE, "models=[local-tiny,nothing]"],
        ("models=nothing: no such option", "must be one of "),
    ),
    "a file of span labels": (
        ["mark_spans", "input={f}/pictures", "model=local-tiny", "span_labels={f}/mood.yaml", "out={f}/out"],
        ("span_labels={f}/mood.yaml: kinds: none; must be mistakes and omissions",),
    ),
    "a rubric that is not YAML": (
        [*JUDGE, "rubric={f}/list.yaml"],
        ("rubric={f}/list.yaml: not a configuration", "must be a mapping"),
    ),
    "an unknown key of a user's option": (
        [*MINE, "corpus={f}/mood.yaml", "corpus.path={f}/good.tsv"],
        ("corpus={f}/mood.yaml: questions: no such key; must be one of language, name, path",),
    ),
    "no pipeline": (
        ["run", "pipeline=x", "out={f}/out"],
        ("pipeline=x: no such option", "must be one of caire, century"),
    ),
}


def check_refusal(
    case: tuple[list[str], str | tuple[str, ...]], files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (name, *arguments), parts = case
    before = {p: p.stat().st_mtime_ns for p in files.rglob("*")}
    code = cli.main(name, [a.replace("{f}", str(files)) for a in arguments])
    printed = capsys.readouterr()
    assert code == 2
    fragments = [part.format(f=files, cwd=Path.cwd()) for part in ([parts] if isinstance(parts, str) else parts)]
    assert [part for part in fragments if part not in printed.err] == []
    if not isinstance(parts, str):
        assert printed.err.removeprefix("error: ").removeprefix(f"{name}: ").startswith(fragments[0])
    assert re.fullmatch(r"error: [^\n]+\n", printed.err)
    assert printed.out == ""
    assert {p: p.stat().st_mtime_ns for p in files.rglob("*")} == before


@pytest.mark.usefixtures("no_services")
def test_bad_input_is_one_sentence_exit_code_2_and_nothing_written(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def check(arguments: list[str], parts: str | tuple[str, ...]) -> None:
        check_refusal((arguments, parts), files, capsys)

    check_cases(check, BAD)


# A plan may be made on another machine than the run's, and looks nothing up on the hub.
OF_THE_MACHINE = (
    "GPUs that the machine does not have",
    "more actors than the machine has CPUs for",
    "a model of the hub while offline",
)


@pytest.mark.usefixtures("no_services")
def test_a_plan_is_refused_as_its_run_is(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def plans(name: str, *_: str) -> bool:
        return name not in ("tric", "link") and type_of(cli.job(name).schema, "plan") is not UNKNOWN

    def check(arguments: list[str], parts: str | tuple[str, ...]) -> None:
        check_refusal(([arguments[0], "plan=true", *arguments[1:]], parts), files, capsys)

    others = {
        "a folder of a model that does not exist": (
            [*JUDGE, "model.checkpoint=./none"],
            ("model.checkpoint=./none: no such folder",),
        ),
        "weights that no GPU of the actors holds": (
            [*JUDGE[:2], "out={f}/out", "model=qwen2.5-vl-72b", "resources=gpu-node", "resources.gpu=L40S"],
            ("model.checkpoint=Qwen/Qwen2.5-VL-72B-Instruct: its weights take 146.7 GB in bfloat16; an actor has ",),
        ),
    }
    check_cases(
        check, {case: bad for case, bad in BAD.items() if plans(*bad[0]) and case not in OF_THE_MACHINE} | others
    )


def test_a_bucket_in_another_region_is_refused_with_its_region(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    elsewhere = {"x-amz-bucket-region": "eu-west-1"}
    with answering(301, "PermanentRedirect", "elsewhere", elsewhere) as endpoint, in_environment(endpoint):
        for key in ("corpus.path=s3://bucket/x.tsv", "corpus=s3://bucket/x.yaml"):
            problem = (f"{key}: the bucket is in another region", "set AWS_REGION")
            check_refusal(([*MINE, key], problem), files, capsys)
