"""The dashboard in a real browser."""

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome")
PATIENCE_MS = 60_000


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Give playwright's own Chromium, or else the system's."""
    with sync_playwright() as playwright:
        own = Path(playwright.chromium.executable_path)
        executable = str(own) if own.exists() else next(filter(None, map(shutil.which, NAMES)), None)
        if executable is None:
            pytest.skip("no Chromium is installed: apt install chromium, or playwright install chromium")
        browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        yield browser
        browser.close()


@contextmanager
def page_of(browser: Browser, address: str, *, width: int = 1200, height: int = 900) -> Iterator[Page]:
    """Open the dashboard; its console must stay silent and it may ask nothing of anybody else."""
    with browser.new_context(viewport={"width": width, "height": height}) as context:
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        complaints: list[str] = []
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        page.on(
            "request", lambda sent: None if sent.url.startswith((address, "data:")) else complaints.append(sent.url)
        )
        page.goto(f"{address}/")
        yield page
        assert complaints == []


def lane_colors(page: Page) -> int:
    """Count the drawn pixels of the timeline that are no grey."""
    count = page.evaluate(
        """() => {
            const canvas = document.getElementById("timeline");
            const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
            let colored = 0;
            for (let i = 0; i < data.length; i += 4)
                colored += data[i + 3] > 40 && Math.max(data[i], data[i + 1], data[i + 2]) -
                    Math.min(data[i], data[i + 1], data[i + 2]) > 40;
            return colored;
        }"""
    )
    assert isinstance(count, int)
    return count


def test_a_prompt_streams_and_the_lanes_move(browser: Browser, daemon: str) -> None:
    """The page would look alive and show nothing of what the engine does."""
    with page_of(browser, daemon) as page:
        expect(page.locator("#health")).to_have_text("ok", timeout=PATIENCE_MS)
        expect(page.locator("#model")).to_have_text("memspec-zoo")
        page.evaluate(
            """() => {
                window.lengths = new Set();
                const answer = document.getElementById("answer");
                new MutationObserver(() => window.lengths.add(answer.textContent.length)).observe(
                    answer, { childList: true, characterData: true, subtree: true });
            }"""
        )
        before = lane_colors(page)
        page.click("#send")
        expect(page.locator("#figures")).to_contain_text("the target's own text", timeout=PATIENCE_MS)
        assert page.evaluate("() => window.lengths.size") > 2, "the text did not come piece by piece"
        expect(page.locator("#requests tr").first).to_contain_text("stop", timeout=PATIENCE_MS)
        for _ in range(100):  # lanes grow while drafts are in memory, also when the request is over
            if lane_colors(page) > before + 100:
                break
            page.wait_for_timeout(100)
        else:
            pytest.fail("the lanes did not move")
        assert float(page.locator("#rate").inner_text()) > 0
        loaded = page.locator("#drafts small", has_text=re.compile("^(loaded|active)$"))
        expect(loaded.first).to_be_visible(timeout=PATIENCE_MS)


def test_a_draft_is_pinned_and_a_refusal_is_shown(browser: Browser, daemon: str) -> None:
    with page_of(browser, daemon) as page:
        page.get_by_label("pin law", exact=True).click()
        expect(page.get_by_label("unpin law")).to_have_attribute("aria-pressed", "true", timeout=PATIENCE_MS)
        page.get_by_label("unpin law").click()
        expect(page.get_by_label("pin law", exact=True)).to_be_visible(timeout=PATIENCE_MS)
        page.fill("#text", "")
        page.fill("#tokens", "3")
        page.select_option("#draft", "off")
        page.click("#send")
        expect(page.locator("#figures")).to_contain_text("no drafts", timeout=PATIENCE_MS)


def test_it_fits_a_phone(browser: Browser, daemon: str) -> None:
    with page_of(browser, daemon, width=360, height=740) as page:
        expect(page.locator("#drafts b")).to_have_count(5, timeout=PATIENCE_MS)
        assert page.evaluate("() => document.documentElement.scrollWidth") <= 360


def test_a_daemon_with_a_key_asks_for_it(browser: Browser, start_daemon: Any) -> None:
    """The page itself is open; everything that it shows is not."""
    with start_daemon("--api-key", "s3cret", toy="ticking") as running, browser.new_context() as context:
        page = context.new_page()
        page.goto(f"{running.address}/")
        expect(page.locator("#login")).to_be_visible(timeout=PATIENCE_MS)
        expect(page.locator("#drafts b")).to_have_count(0)
        page.fill("#key", "s3cret")
        page.click("#login button")
        expect(page.locator("#health")).to_have_text("ok", timeout=PATIENCE_MS)
        expect(page.locator("#drafts b")).to_have_count(1, timeout=PATIENCE_MS)
