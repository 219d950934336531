"""Compare remine with transformers on every architecture, and write docs/models.md.

python -m tests.models.architectures                  # all of them: some minutes
python -m tests.models.architectures qwen3_5 gemma4   # these, and the others as recorded
"""

import concurrent.futures
import logging
import sys
import tempfile
from pathlib import Path

from tests.models.architectures import page
from tests.models.architectures.checkpoints import architectures, write
from tests.models.architectures.comparison import Comparison, Outcome


def main(names: list[str]) -> None:
    """Compare the architectures with these names, or all; record the results and render the page."""
    results: page.Results = {}
    with concurrent.futures.ProcessPoolExecutor(initializer=be_quiet) as processes:
        running = {processes.submit(compare, kind): kind for kind in names or architectures()}
        for comparison in concurrent.futures.as_completed(running):
            kind = running[comparison]
            try:
                results[kind], text = comparison.result()
                print(text, flush=True)
            except Exception as error:  # of one architecture
                print(f"{kind}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
    recorded = page.read_results() | results
    page.write_results({kind: recorded[kind] for kind in architectures() if kind in recorded})
    if missing := [kind for kind in names or architectures() if kind not in results]:
        sys.exit(f"not compared: {', '.join(missing)}")


def be_quiet() -> None:
    """Let a process compute on one processor, without progress bars and warnings."""
    import torch
    import transformers

    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    logging.disable(logging.WARNING)


def compare(kind: str) -> tuple[dict[str, Outcome], str]:
    """Return the outcomes of an architecture, and their text."""
    with tempfile.TemporaryDirectory() as folder:
        write(kind, Path(folder))
        comparison = Comparison(Path(folder))
        outcomes = comparison.outcomes()
        cells = (f"{job}: {' '.join(map(str, cell))}" for job, cell in outcomes.items())
        return outcomes, "\n  ".join([kind, f"visible: {comparison.visible()}", *cells])


if __name__ == "__main__":
    main(sys.argv[1:])
