"""That the browser of these tests sees what pages must not do."""

from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import Browser


async def test_a_page_without_fault_is_shown(browser: Browser, tmp_path: Path) -> None:
    """The tests of this folder stand on this."""
    path = tmp_path / "page.html"
    path.write_text("<!doctype html><title>t</title><p id=a></p><script>a.textContent = 1 + 1</script>")
    page = await browser.open(path.as_uri())
    assert await page.locator("#a").inner_text() == "2"


@pytest.mark.parametrize(
    ("html", "complaint"),
    [
        ("<script>console.error('x')</script>", "error: x"),
        ("<script>throw new Error('x')</script>", "threw"),
        ("<script>alert('x')</script>", "opened a dialog"),
        ("<img src=http://127.0.0.1:9/x.png>", "asked for http://127.0.0.1:9/x.png"),
    ],
)
async def test_a_fault_of_a_page_is_seen(browser: Browser, tmp_path: Path, html: str, complaint: str) -> None:
    """A check that cannot fail proves nothing."""
    path = tmp_path / "page.html"
    path.write_text(f"<!doctype html><title>t</title>{html}")
    await browser.open(path.as_uri())
    assert any(complaint in each for each in browser.complaints)
    browser.complaints.clear()
