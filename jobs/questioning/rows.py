"""Questions as rows of the table `questions`."""

from typing import Any

from jobs.questioning.graph import GraphQuestion


def question_row(question: GraphQuestion, text: str | None) -> dict[str, Any]:
    """Return the row of a question; `text` is the text that its set is about, None if unknown."""
    return {
        "set_id": question.set_id,
        "question_id": question.question_id,
        "text": question.text,
        "tuple": question.proposition or None,
        "category": question.category or None,
        "parents": list(question.parents),
        "valid": question.valid,
        "fault": question.fault or None,
        "line": question.line,
        "about": text,
    }
