"""Work on four studies in Label Studio's interface, in chromium; run by the Python of Label Studio.

    python in_label_studio.py ADDRESS QUESTIONS_FOLDER SPANS_FOLDER DOCENT_FOLDER OWN_FOLDER EXPORTS_FOLDER

Needs `label-studio`, `playwright` and chromium. test_label_studio_itself.py compares the ratings with what is clicked,
pressed and marked here.
"""

import shutil
import sys
from pathlib import Path
from typing import Any

import requests
from playwright.sync_api import Page, sync_playwright

USER, PASSWORD = "anna@example.org", "only-in-this-test"
STEP = 2500  # ms until the next task is loaded
CORRECT = "A dog on a sandy beach."
DOCENT = {  # generated description -> keys and words
    "An otter on a beach.": [("1", "otter"), ("2", "sandy")],
    "An animal on a beach.": [("2", "dog"), ("2", "sandy")],
    "A black dog on a sandy beach.": [("1", "black")],
    "On a sandy beach, a dog.": [],
}
COLOURS = {"1": "rgba(214, 39, 40", "2": "rgba(31, 119, 180"}  # red and blue, as conf/span_labels/docent.yaml has them
# Return the position on the screen of a word in the text to mark.
PLACE = """word => {
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
        const start = node.data.indexOf(word);
        if (start < 0 || !node.parentElement.closest("[class*=richtext]")) continue;
        const range = document.createRange();
        range.setStart(node, start);
        range.setEnd(node, start + word.length);
        node.parentElement.scrollIntoView({block: "center"});
        const box = range.getBoundingClientRect();
        return [box.left, box.right, (box.top + box.bottom) / 2];
    }
}"""


def session(address: str) -> requests.Session:
    client = requests.Session()
    client.get(f"{address}/user/login/")
    token = str(client.cookies["csrftoken"])
    form = {"csrfmiddlewaretoken": token, "email": USER, "password": PASSWORD}
    client.post(f"{address}/user/login/", data=form, headers={"Referer": address}).raise_for_status()
    client.headers.update({"X-CSRFToken": str(client.cookies["csrftoken"]), "Referer": address})
    return client


def project(client: requests.Session, address: str, folder: Path) -> int:
    """Create a project with the study's configuration, its pictures and the tasks of the one rater; return its id."""
    config = (folder / "label_studio" / "config.xml").read_text("utf-8")
    settings: Any = {"title": f"study {folder.name}", "label_config": config, "sampling": "Sequential sampling"}
    number: int = done(client.post(f"{address}/api/projects/", json=settings))["id"]
    pictures: Any = {"project": number, "path": str(folder / "pictures"), "use_blob_urls": True, "title": "pictures"}
    done(client.post(f"{address}/api/storages/localfiles", json=pictures))
    tasks = (folder / "label_studio" / f"{USER}.json").read_bytes()
    done(client.post(f"{address}/api/projects/{number}/import", files={"tasks.json": tasks}))
    return number


def done(answer: requests.Response) -> dict[str, Any]:
    assert answer.ok, answer.text[:500]
    return answer.json()


def press(page: Page, button: str) -> None:
    """Press a button that ends the task, and wait until the next task is loaded, however busy the machine is."""
    with page.expect_response(lambda answer: "next_task" in answer.url, timeout=300_000):
        page.get_by_role("button", name=button).click()
    page.wait_for_load_state("networkidle")
    page.wait_for_timeout(STEP)


def submit(page: Page) -> None:
    press(page, "Submit current annotation")


def mark(page: Page, key: str, word: str) -> None:
    page.keyboard.press(key)
    page.evaluate(PLACE, word)  # scrolls there
    page.wait_for_timeout(300)
    left, right, y = page.evaluate(PLACE, word)
    page.mouse.move(left + 1, y)
    page.mouse.down()
    page.mouse.move((left + right) / 2, y, steps=4)
    page.mouse.move(right - 0.5, y, steps=4)
    page.mouse.up()
    page.wait_for_timeout(500)
    page.keyboard.press("Escape")


def width_of_picture(page: Page) -> float:
    return float(page.locator(".remine-blurred img").first.evaluate("e => e.getBoundingClientRect().width"))


def is_blurred(page: Page) -> bool:
    return bool(page.locator(".remine-blurred").evaluate("e => getComputedStyle(e).filter") != "none")


def answer_questions(page: Page) -> None:
    """Answer task 1 by clicks, with a typed comment; report 2, skip 3, answer 4 by keys, leave 5 as a draft."""
    assert is_blurred(page)
    page.get_by_text("Show me the picture").click()
    page.wait_for_timeout(500)
    assert not is_blurred(page)
    assert width_of_picture(page) > 200, "the picture must not be as small as a stamp"
    chosen = ["Photograph", "Person", "Conflict", "Eastern Europe", "Yes", "(3) Somewhat sensitive"]
    for label in [*chosen, "(1) Not at all controversial", "(5) Very commemorative"]:
        page.get_by_text(label).first.click()
    page.locator("textarea").first.fill("a comment – ünï 🚢")
    submit(page)
    page.get_by_text("Report this picture").click()
    page.wait_for_timeout(500)
    assert not page.get_by_text("What kind of picture is this?").first.is_visible(), (
        "a reported picture needs no answers"
    )
    submit(page)
    press(page, "skip-task")
    for key in "2wu7dc":  # one key per question; regions and the last scale have none
        page.keyboard.press(key)
    page.get_by_role("button", name="Submit current annotation").click()
    page.wait_for_timeout(STEP)
    assert page.get_by_text("Not answered yet: Which of these regions").count() == 1
    page.keyboard.press("Escape")
    for label in ("Polynesia", "(2) Not commemorative"):
        page.get_by_text(label).first.click()
    submit(page)
    page.get_by_text("Photograph").first.click()
    page.wait_for_timeout(STEP)


def mark_spans(page: Page) -> None:
    """Mark spans after characters of two UTF-16 units in task 1; mark none in task 2 and report a faulty response."""
    for key, word in (("2", "five"), ("4", "swimming"), ("5", "Two men")):
        mark(page, key, word)
    page.keyboard.press("8")  # the labels' keys are 1 to 5
    submit(page)
    page.keyboard.press("l")
    page.keyboard.press("6")
    submit(page)


def mark_descriptions(page: Page) -> None:
    """Work through the four descriptions of a picture as the DOCENT guidelines ask, one of them without marks."""
    remaining = set(DOCENT)
    while remaining:
        generated = shown(page, remaining)
        remaining.remove(generated)
        assert top(page, CORRECT) < top(page, generated), "the correct description comes first"
        for key, word in DOCENT[generated]:
            mark(page, key, word)
        backgrounds = colours(page)
        for key, _ in DOCENT[generated]:
            assert COLOURS[key] in backgrounds, f"{generated} key {key}: {backgrounds}"
        submit(page)


def answer_own_questions(page: Page) -> None:
    """Answer the questions of two pictures, three of one and one of the other, each by what its text says."""
    for _ in range(2):
        asked = page.get_by_text("Answer with")
        asked.first.wait_for(timeout=300_000)
        for number in range(asked.count()):
            word = (asked.nth(number).text_content() or "").split()[2]
            page.get_by_role("radio").nth(2 * number + ("Yes", "No").index(word)).check()
        submit(page)


def shown(page: Page, texts: set[str]) -> str:
    """Return which of the texts the page shows, once it shows one."""
    for _ in range(120):
        for text in texts:
            if page.get_by_text(text, exact=True).count():
                return text
        page.wait_for_timeout(500)
    raise AssertionError(f"the page shows none of {texts}")


def top(page: Page, text: str) -> float:
    """Return how far down the screen a text begins."""
    return float(page.evaluate(PLACE, text)[2])


def colours(page: Page) -> str:
    """Return the background colours of the marked spans."""
    marked = page.locator(".htx-highlight")
    return " ".join(marked.evaluate_all("all => all.map(e => getComputedStyle(e).backgroundColor)"))


def main(address: str, *folders: Path) -> None:
    *studies, exports = folders
    client = session(address)
    with sync_playwright() as tools:
        browser = tools.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1400, "height": 1000})
        page.goto(f"{address}/user/login/")
        page.fill("input[name=email]", USER)
        page.fill("input[name=password]", PASSWORD)
        page.keyboard.press("Enter")
        page.wait_for_load_state("networkidle")
        for folder, work in zip(studies, WORK, strict=True):
            number = project(client, address, folder)
            page.goto(f"{address}/projects/{number}/data?labeling=1")
            page.get_by_role("button", name="Submit current annotation").wait_for(timeout=300_000)
            page.wait_for_timeout(STEP)
            work(page)
            export = client.get(f"{address}/api/projects/{number}/export?exportType=JSON&download_all_tasks=true")
            (exports / f"{folder.name}.json").write_bytes(export.content)
        browser.close()


WORK = (answer_questions, mark_spans, mark_descriptions, answer_own_questions)  # in the order of the folders

if __name__ == "__main__":
    main(sys.argv[1], *map(Path, sys.argv[2:]))
