"""Models whose chat template opens a thought: closed answers and labels inside it are refused before the run."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from actors.local_models import resolve
from actors.vlm.chat import Chat, ChatEncoder
from actors.vlm.loading import load_processor
from actors.vlm.model_checks import opened_thought
from jobs.runtime.command_line import cli
from tests.factories import rows_of, write_table

OPENED = {
    **dict.fromkeys(("<think>\\n", "<think>\\n\\n", "<think>\\nOkay, "), "<think>"),
    **{mark: mark for mark in ("[THINK]", "<thinking>", "<|channel|>analysis<|message|>")},
}
CLOSED = ("", "<think>\\n\\n</think>\\n\\n", "[THINK][/THINK]", "<|channel|>final<|message|>")
OPENING = "'<|im_start|>assistant\\n'"
Write = Callable[[str], str]


@pytest.fixture(scope="module")
def write(tmp_path_factory: pytest.TempPathFactory) -> Write:
    """Return a function that writes a model whose template ends with a text, and returns its folder."""
    source = Path(resolve("local:qwen2.5-vl-tiny"))

    def folder(end: str) -> str:
        copy = tmp_path_factory.mktemp("model") / "thinker"
        shutil.copytree(source, copy)
        template = (copy / "chat_template.jinja").read_text(encoding="utf-8")
        assert template.count(OPENING) == 1
        (copy / "chat_template.jinja").write_text(template.replace(OPENING, f"{OPENING[:-1]}{end}'"), encoding="utf-8")
        return str(copy)

    return folder


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> str:
    out = tmp_path_factory.mktemp("tables") / "images"
    write_table(out, "images", [{"image_id": "a", "rendition": "original", "status": "ok", "bytes": b"x"}])
    return str(out)


def test_the_end_of_the_template_decides(write: Write) -> None:
    for end, mark in OPENED.items():
        folder = write(end)
        chat = ChatEncoder(load_processor(folder))
        assert opened_thought(folder) == opened_thought(folder, local_only=True) == chat.opened_thought() == mark, end
        assert opened_thought(folder, start="Answer:") == mark
        with pytest.raises(ValueError, match="opens a thought"):
            chat.refuse_thought()
    for end in CLOSED:
        folder = write(end)
        assert opened_thought(folder) == ChatEncoder(load_processor(folder)).opened_thought() == "", end


def test_the_template_is_found_wherever_it_is(write: Write, tmp_path: Path) -> None:
    folder = Path(write("<think>\\n"))
    template = (folder / "chat_template.jinja").read_text(encoding="utf-8")
    (folder / "chat_template.jinja").unlink()
    assert opened_thought(str(folder)) == ""
    default = {"chat_template": [{"name": "tool", "template": ""}, {"name": "default", "template": template}]}
    for name, value in (
        ("tokenizer_config.json", {"chat_template": template}),
        ("tokenizer_config.json", default),
        ("processor_config.json", {"chat_template": template}),
        ("chat_template.json", {"chat_template": template}),
    ):
        (folder / name).write_text(json.dumps(value), encoding="utf-8")
        assert opened_thought(str(folder)) == "<think>", name
        (folder / name).unlink()
    (folder / "chat_template.jinja").write_text("{{ raise_exception('<think>') }}", encoding="utf-8")
    assert opened_thought(str(folder)) == "", "workers look again"
    assert opened_thought("org/not-in-the-cache", local_only=True) == ""
    assert opened_thought("s3://bucket/model", local_only=True) == ""
    assert opened_thought(str(tmp_path / "nowhere"), local_only=True) == ""


@pytest.mark.parametrize("plan", ["plan=true", "plan=false"])
def test_answers_and_labels_inside_a_thought_are_refused(
    plan: str, write: Write, images: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, out = write("<think>\\n"), tmp_path / "out"
    keys = [f"input={images}", f"model.checkpoint={folder}", f"out={out}", plan]
    for job, more in (
        ("judge", ["rubric=century_labels"]),
        ("judge", ["rubric=century_labels", "method=reasoned"]),
        ("loglik", ["targets=[a,b]"]),
        ("mark_spans", ["method=claims", f"images={images}", f"texts={images}"]),
    ):
        assert cli.main(job, [*keys, *more]) == 2, job
        error = capsys.readouterr().err
        assert error.startswith(f"error: model.checkpoint={folder}: its chat template opens a thought (<think>)"), job
        assert not out.exists()


def test_a_start_that_closes_the_thought_is_allowed(write: Write, images: str, tmp_path: Path) -> None:
    question = {"name": "shown", "text": "Is it?", "answers": [1, 2]}
    rubric = {"name": "mood", "answer_start": "</think>\n\nMy answer:", "questions": [question]}
    (tmp_path / "mood.yaml").write_text(json.dumps(rubric), encoding="utf-8")
    keys = [f"input={images}", f"model.checkpoint={write('<think>')}", f"out={tmp_path}/out", "plan=true"]
    assert cli.main("judge", [*keys, f"rubric={tmp_path}/mood.yaml"]) == 0
    assert cli.main("generate", [*keys, "prompt=explicit"]) == 0, "its texts come after the thought"


def test_answers_of_several_tokens_are_refused_too(write: Write) -> None:
    chat = Chat(load_processor(write("<think>")), name="m")
    with pytest.raises(ValueError, match="opens a thought"):
        chat.refuse_thought("Final score:")


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
