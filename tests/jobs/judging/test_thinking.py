"""Models whose chat template opens a thought, by command: closed answers follow it, texts are apart from it."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from actors.local_models import resolve
from actors.vlm.model_checks import check_template
from jobs.runtime.command_line import cli
from tests.factories import rows_of, write_table

OPENING = "'<|im_start|>assistant\\n'"
Write = Callable[..., str]


@pytest.fixture(scope="module")
def write(tmp_path_factory: pytest.TempPathFactory) -> Write:
    """Return a function that writes a model whose template ends with a text, or with source of its own."""
    tiny = Path(resolve("local:qwen2.5-vl-tiny"))

    def folder(end: str, *, source: bool = False) -> str:
        copy = tmp_path_factory.mktemp("model") / "thinker"
        shutil.copytree(tiny, copy)
        template = (copy / "chat_template.jinja").read_text(encoding="utf-8")
        assert template.count(OPENING) == 1
        if source:
            template += end
        (copy / "chat_template.jinja").write_text(template.replace(OPENING, f"{OPENING[:-1]}{'' if source else end}'"))
        return str(copy)

    return folder


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> str:
    out = tmp_path_factory.mktemp("tables") / "images"
    write_table(out, "images", [{"image_id": "a", "rendition": "original", "status": "ok", "bytes": b"x"}])
    return str(out)


def test_variables_of_the_template_are_checked_before_the_run(
    write: Write, images: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, out = write("{% if not ponder is defined %}<think>{% endif %}", source=True), tmp_path / "out"
    keys = [f"input={images}", f"model.checkpoint={folder}", f"out={out}"]
    for job, more in (
        ("judge", ["rubric=century_labels"]),
        ("judge", ["rubric=century_labels", "method=reasoned"]),
        ("generate", ["prompt=explicit"]),
        ("loglik", ["targets=[a,b]"]),
        ("mark_spans", ["method=claims", f"images={images}", f"texts={images}"]),
    ):
        for plan in ("plan=true", "plan=false"):
            assert cli.main(job, [*keys, *more, plan, "model.template={pondr: false}"]) == 2, job
            error = capsys.readouterr().err
            assert error.startswith("error: model.template={pondr: …}: the model's chat template does not read"), job
            assert "use one of ponder" in error
            assert not out.exists()
    assert cli.main("judge", [*keys, "rubric=century_labels", "plan=true", "model.template={ponder: false}"]) == 0
    assert cli.main("judge", [*keys, "rubric=century_labels", "plan=true", "model.template=ponder"]) == 2


def test_the_template_is_found_wherever_it_is(write: Write, tmp_path: Path) -> None:
    folder = Path(write("<think>\\n"))
    template = (folder / "chat_template.jinja").read_text(encoding="utf-8") + "{{ level }}"
    (folder / "chat_template.jinja").unlink()
    default = {"chat_template": [{"name": "tool", "template": ""}, {"name": "default", "template": template}]}
    for name, value in (
        ("tokenizer_config.json", {"chat_template": template}),
        ("tokenizer_config.json", default),
        ("processor_config.json", {"chat_template": template}),
        ("chat_template.json", {"chat_template": template}),
    ):
        (folder / name).write_text(json.dumps(value), encoding="utf-8")
        for local_only in (True, False):
            check_template(str(folder), {"level": 1}, local_only=local_only)
            with pytest.raises(ValueError, match="use one of level"):
                check_template(str(folder), {"x": 1}, local_only=local_only)
        (folder / name).unlink()
    for name in ("org/not-in-the-cache", "s3://bucket/model", str(tmp_path / "nowhere")):
        check_template(name, {"x": 1}, local_only=True)


def test_a_start_that_leaves_a_thought_open_is_refused(
    write: Write, images: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    question = {"name": "shown", "text": "Is it?", "answers": [1, 2]}
    keys = [f"input={images}", f"model.checkpoint={write('<think>')}", f"out={tmp_path}/out", "plan=true"]
    for start, code in (("</think>\n\nMy answer:", 0), ("<think>Hm. My answer:", 2)):
        rubric = {"name": "mood", "answer_start": start, "questions": [question]}
        (tmp_path / "mood.yaml").write_text(json.dumps(rubric), encoding="utf-8")
        assert cli.main("judge", [*keys, f"rubric={tmp_path}/mood.yaml"]) == code
    assert "opens a thought (<think>) that it does not close" in capsys.readouterr().err


def test_a_thought_that_nothing_closes_is_refused_before_a_machine_starts(
    write: Write, images: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = Path(write("◁ think▷"))
    template = folder / "chat_template.jinja"
    refuses = "{{ raise_exception('no') }}"
    only_questions = "{% for m in messages %}{% if m.role != 'user' %}" + refuses + "{% endif %}{% endfor %}"
    question = {"name": "shown", "text": "Is it?", "answers": [1, 2]}
    for start, code in (("", 2), ("So:", 2), ("</think> So:", 0)):
        template.write_text(only_questions + template.read_text(encoding="utf-8"), encoding="utf-8")
        rubric = {"name": "mood", "questions": [question], **({"answer_start": start} if start else {})}
        (tmp_path / "mood.yaml").write_text(json.dumps(rubric), encoding="utf-8")
        keys = [f"input={images}", f"model.checkpoint={folder}", f"out={tmp_path}/out", f"rubric={tmp_path}/mood.yaml"]
        assert cli.main("judge", [*keys, "plan=true"]) == code, start
        if code:
            assert cli.main("judge", keys) == code
            assert capsys.readouterr().err.count("does not say what closes it") == 2
    assert cli.main("loglik", [*keys[:3], "targets=[Peru,Chile]", "plan=true"]) == 2
    assert not (tmp_path / "out").exists()


def test_a_plan_says_in_a_sentence_why_a_template_cannot_be_used(
    write: Write, images: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = Path(write(""))
    keys = [f"input={images}", f"model.checkpoint={folder}", f"out={tmp_path}/out", "rubric=century_labels"]
    for source, message in (
        ("{{ 1 / 0 }}", "ZeroDivisionError: division by zero"),
        ("{{ 'the same' }}", "drops the picture"),
        ("{{" + "(" * 5000, "chat template"),
        ("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", "chat template"),
    ):
        (folder / "chat_template.jinja").write_text(source, encoding="utf-8")
        assert cli.main("judge", [*keys, "plan=true"]) == 2, message
        error = capsys.readouterr().err
        assert error.startswith(f"error: model.checkpoint={folder}: "), error
        assert message in error


@pytest.mark.usefixtures("in_process")
def test_closed_answers_follow_the_closed_thought_and_texts_leave_it_out(write: Write, tmp_path: Path) -> None:
    from tests.actors.vlm.helpers import png

    write_table(tmp_path / "I", "images", [{"image_id": "a", "rendition": "original", "status": "ok", "bytes": png(1)}])
    folder, plain = write("<think>\\n"), write("<think>\\n\\n</think>\\n\\n")
    rubric = {"name": "mood", "questions": [{"name": "shown", "text": "Is it?", "answers": [1, 2, 3]}]}
    (tmp_path / "mood.yaml").write_text(json.dumps(rubric), encoding="utf-8")
    keys = [f"input={tmp_path}/I", f"rubric={tmp_path}/mood.yaml", "model.device_map=cpu", "model.dtype=float32"]
    for name, checkpoint in (("thinking", folder), ("closed", plain)):
        assert cli.main("judge", [*keys, f"model.checkpoint={checkpoint}", f"out={tmp_path}/{name}"]) == 0
    (row,), (other,) = rows_of(f"{tmp_path}/thinking"), rows_of(f"{tmp_path}/closed")
    assert row["status"] == "ok"
    assert row["probabilities"] == pytest.approx(other["probabilities"], abs=1e-6)
    keys = [f"input={tmp_path}/I", f"model.checkpoint={folder}", "prompt=explicit", "max_tokens=3", "samples=1"]
    assert cli.main("generate", [*keys, f"out={tmp_path}/texts"]) == 0
    (text,) = rows_of(f"{tmp_path}/texts")
    assert (text["status"], text["text"], text["error_kind"]) == ("truncated", "", "answer_cut")
    assert text["thought"]


@pytest.mark.usefixtures("in_process")
def test_improbable_answers_are_counted_and_printed(
    images: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Weights that are random spread the probability over thousands of tokens."""
    from tests.actors.vlm.helpers import png

    write_table(tmp_path / "I", "images", [{"image_id": "a", "rendition": "original", "status": "ok", "bytes": png(1)}])
    keys = [f"input={tmp_path}/I", "model=local-tiny", "rubric=century_labels", f"out={tmp_path}/out"]
    assert cli.main("judge", keys) == 0
    masses = [row["outside_mass"] for row in rows_of(f"{tmp_path}/out")]
    manifest = json.loads((tmp_path / "out" / "_run" / "manifest.json").read_text())
    improbable = sum(mass > 0.99 for mass in masses)
    assert manifest["counts"]["tallies"]["answers"] == {"scored": len(masses), "improbable": improbable}
    assert improbable > len(masses) / 2
    assert f"warning: in {improbable} of {len(masses)} rows" in capsys.readouterr().err
