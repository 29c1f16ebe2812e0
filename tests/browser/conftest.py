"""A real browser (Chromium) for pages: what they show is read out of it, and it must have nothing to complain about.

A test asks for `browser` and opens pages with it. Where no Chromium is installed, the tests are skipped and say so; the
variable CHROMIUM names one in an unusual place.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator
from typing import Any, Literal
from urllib.parse import urlsplit

import pytest
from playwright.async_api import Browser as Chromium
from playwright.async_api import ConsoleMessage, Dialog, Page, Route, async_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
OWN_SCHEMES = {"file", "data", "blob", "about"}


def executable() -> str | None:
    """The Chromium of this machine, None where there is none."""
    named = os.environ.get("CHROMIUM")
    return named or next((path for name in NAMES if (path := shutil.which(name))), None)


class Browser:
    """Opens pages. `complaints` gathers what they print as errors or warnings, throw, and ask of other places than
    the ones they may."""

    def __init__(self, chromium: Chromium) -> None:
        self._chromium = chromium
        self.complaints: list[str] = []

    async def open(
        self,
        url: str,
        *,
        color_scheme: Literal["light", "dark"] = "light",
        width: int = 1280,
        height: int = 900,
        offline: bool = False,
        **context: Any,
    ) -> Page:
        """A page that shows `url` in a context of its own. It may load from the address of `url` alone. `offline`
        also cuts the network off; `context` are further options of Playwright's `new_context`."""
        opened = await self._chromium.new_context(
            color_scheme=color_scheme, viewport={"width": width, "height": height}, offline=offline, **context
        )
        home = urlsplit(url)

        async def guard(route: Route) -> None:
            asked = urlsplit(route.request.url)
            if asked.scheme in OWN_SCHEMES or (asked.scheme, asked.netloc) == (home.scheme, home.netloc):
                await route.continue_()
            else:
                self.complaints.append(f"asked for {route.request.url}")
                await route.abort()

        await opened.route("**/*", guard)
        page = await opened.new_page()
        page.on("console", self._heard)
        page.on("pageerror", lambda error: self.complaints.append(f"threw {error}"))
        page.on("dialog", self._asked)
        await page.goto(url)
        return page

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"{message.type}: {message.text}")

    async def _asked(self, dialog: Dialog) -> None:
        self.complaints.append(f"opened a dialog: {dialog.message}")
        await dialog.dismiss()


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    """A browser for one test, which fails at its end where a page complained."""
    path = executable()
    if path is None:
        pytest.skip("no Chromium found: install it (Debian: apt-get install chromium), or name it by CHROMIUM")
    async with async_playwright() as playwright:
        chromium = await playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        try:
            browser = Browser(chromium)
            yield browser
            assert browser.complaints == []
        finally:
            await chromium.close()
