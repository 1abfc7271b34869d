"""The timeline, looked at: in a real browser, and as pictures."""

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
from playwright.sync_api import Browser, Error, Page, sync_playwright

from memspec_actors.errors import UsageError
from memspec_actors.telemetry.story import DraftSpan, Ran, Served, Story
from memspec_actors.telemetry.storyteller import tell_story
from memspec_actors.telemetry.timeline import timeline_page, timeline_picture
from tests.telemetry.conftest import RealRun

PIXELS = """() => {
    const data = document.getElementById("view").getContext("2d").getImageData(0, 0, 4000, 2000).data;
    const colours = new Map();
    for (let i = 0; i < data.length; i += 4) {
        const key = data.slice(i, i + 4).join();
        colours.set(key, (colours.get(key) || 0) + 1);
    }
    return Object.fromEntries(colours);
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    system = next((path for name in ("chromium", "google-chrome") if (path := shutil.which(name))), None)
    with sync_playwright() as playwright:
        try:
            browser = playwright.chromium.launch(executable_path=system, args=["--no-sandbox"])
        except Error:
            pytest.skip("no browser is installed")
        yield browser
        browser.close()


class Visit:
    """Open a story's page and note every complaint and every request to elsewhere."""

    def __init__(self, browser: Browser, path: Path, story: Story, colour_scheme: str = "light") -> None:
        path.write_text(timeline_page(story), encoding="utf-8")
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page: Page = browser.new_page(color_scheme=colour_scheme)  # type: ignore[arg-type]
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(path.as_uri())
        self.page.wait_for_function("canvas.width > 0 && canvas.style.height")

    def window(self) -> tuple[float, float]:
        first, last = self.page.evaluate("[from, to]")
        return first, last

    def hover(self, second: float, lane: str) -> str:
        """Move the pointer to a moment in a lane and return what the page tells of it."""
        place = """([second, title]) => {
            const lane = lanes.find(each => each.title === title), box = canvas.getBoundingClientRect();
            return [box.x + x(second), box.y + lane.top + lane.height / 2];
        }"""
        self.page.mouse.move(*self.page.evaluate(place, [second, lane]))
        return self.page.locator("#tip").inner_text() if self.page.locator("#tip").is_visible() else ""


def long_story(num_iterations: int) -> Story:
    iterations = [
        Ran(
            request="r1", iteration=index, draft=("code", "law")[index // 500 % 2], desired="code", share="desired",
            start=index * 0.01, end=index * 0.01 + 0.009, drafted=5, accepted=index % 6, emitted=index % 6 + 1,
            gap_us=1000.0, waited_us=0.0,
        )
        for index in range(num_iterations)
    ]  # fmt: skip
    end = num_iterations * 0.01
    spans = [DraftSpan(draft=name, generation=1, state="resident", start=0.0, end=end) for name in ("code", "law")]
    served = Served(id="r1", policy="memspec", start=0.0, end=end, first_token=0.0, tokens=num_iterations * 3)
    return Story(began=1e9, end=end, drafts=spans, iterations=iterations, requests=[served])


def test_page_draws_a_real_run_and_asks_for_nothing(run: RealRun, browser: Browser, tmp_path: Path) -> None:
    """One file: it must open offline, years later."""
    story = tell_story(run.records)
    visit = Visit(browser, tmp_path / "page.html", story)
    assert visit.complaints == []
    assert visit.requests == [(tmp_path / "page.html").as_uri()]
    legend = visit.page.locator("#legend").inner_text()
    assert all(name in legend for name in story.draft_names)
    assert len(visit.page.evaluate(PIXELS)) > 20, "the canvas is empty"
    ran = story.iterations[3]
    told = visit.hover((ran.start + ran.end) / 2, "acceptance")
    assert f"iteration {ran.iteration} of {ran.request[:8]}" in told
    assert f"{ran.accepted} of {ran.drafted} accepted" in told
    served = story.requests[1]
    assert served.id in visit.hover((served.start + served.end) / 2, "requests")
    ranked = story.predictions[0]
    assert f"{ranked.order[0]} {ranked.scores[0]:.3f}" in visit.hover(ranked.end, "predictions")


def test_ten_thousand_iterations_can_be_zoomed_into(browser: Browser, tmp_path: Path) -> None:
    visit = Visit(browser, tmp_path / "page.html", long_story(10_000))
    assert visit.window() == pytest.approx((0.0, 100.0))
    box = visit.page.locator("#view").bounding_box()
    assert box is not None
    middle = visit.page.evaluate("x(50)")
    visit.page.mouse.move(box["x"] + middle, box["y"] + 50)
    for _ in range(8):
        visit.page.mouse.wheel(0, -400)
    visit.page.wait_for_function("to - from < 2")
    first, last = visit.window()
    assert first < 50 < last, "the moment under the pointer must stay"
    visit.page.mouse.down()
    visit.page.mouse.move(box["x"] + middle + 200, box["y"] + 50)
    visit.page.mouse.up()
    assert visit.window()[0] < first, "dragging to the right goes back in time"
    visit.page.keyboard.press("0")
    assert visit.window() == pytest.approx((0.0, 100.0))
    visit.page.select_option("#request", "0")
    assert visit.window() == pytest.approx((0.0, 100.0))
    assert visit.complaints == []


def test_dark_and_light_pages_differ(browser: Browser, tmp_path: Path) -> None:
    shades = [
        Visit(browser, tmp_path / "page.html", long_story(10), scheme).page.evaluate(
            "getComputedStyle(document.body).backgroundColor"
        )
        for scheme in ("light", "dark")
    ]
    assert shades[0] != shades[1]


def test_names_in_a_log_are_text_and_nothing_else(browser: Browser, tmp_path: Path) -> None:
    """A log may come from anybody: what it holds must not run in the reader's browser."""
    story = long_story(10)
    evil = "</script><img src=x onerror=alert(1)>"
    story.requests[0].id = story.requests[0].policy = evil
    story.drafts[0].draft = evil
    visit = Visit(browser, tmp_path / "page.html", story)
    assert visit.complaints == []
    assert visit.page.locator("img").count() == 0
    assert evil in visit.page.locator("#legend").inner_text()


def test_svg_names_the_drafts(run: RealRun) -> None:
    story = tell_story(run.records)
    root = ElementTree.fromstring(timeline_picture(story, "svg"))
    assert root.tag.endswith("svg")
    svg = timeline_picture(story, "svg").decode()
    assert all(f"<!-- {name} -->" in svg for name in story.draft_names)


def test_png_is_a_png(run: RealRun) -> None:
    picture = timeline_picture(tell_story(run.records), "png")
    assert picture.startswith(b"\x89PNG\r\n")
    assert int.from_bytes(picture[16:20], "big") == 1800


def test_picture_without_matplotlib_says_what_to_install(run: RealRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(UsageError, match=r"memspec-actors\[plots\]"):
        timeline_picture(tell_story(run.records), "svg")
