"""The server's page in a real browser: right numbers, live, for everybody, behind the token (H8, H12, F5)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from decimal import ROUND_HALF_UP, Decimal
from itertools import count, product
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.async_api import Locator, Page, expect
from tests.e2e.calling import BOUND_S, cancelled_after
from tests.e2e.groups import REJECTED, SECRETS, TOKEN, Group, TextJudge
from tests.e2e.serving import Server, serving

from .conftest import Browser

expect.set_options(timeout=BOUND_S * 1000)
Serve = Callable[..., AbstractAsyncContextManager[Server]]
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
MARKUP = "<img src=nowhere.png onerror=alert(1)><script>alert(2)</script>"


@pytest.fixture
async def judge() -> AsyncIterator[TextJudge]:
    async with TextJudge() as judge:
        yield judge


@pytest.fixture
def serve(judge: TextJudge, tmp_path: Path) -> Serve:
    """Starts a server whose groups have four members."""
    numbers = count()

    def start(sets: dict[str, object] | None = None, **how: Any) -> AbstractAsyncContextManager[Server]:
        own = {"judge.base_url": judge.base_url, "judge.retries": 0, "judge.params": {}, "group.size": 4}
        own |= {"scoring.score_range": None} | (sets or {})
        return serving(own, tmp_path / f"log{next(numbers)}", **how)

    return start


async def tile(page: Page, name: str) -> Locator:
    return page.locator("#tiles div", has_text=name).locator("dd")


def rows(page: Page, table: str) -> Locator:
    return page.locator(f"#{table} tbody tr")


def shown(reward: float) -> str:
    """With two decimals, the halves rounded up."""
    return str(Decimal(reward).quantize(Decimal("0.01"), ROUND_HALF_UP))


async def finish(server: Server, *groups: Group) -> None:
    for group in groups:
        await asyncio.gather(*map(server.client.verify, group.bodies()))


async def test_it_shows_the_numbers_of_a_known_run_as_they_change(
    browser: Browser, serve: Serve, judge: TextJudge
) -> None:
    """H8: groups by phase, who is missing, rewards, failures; without reloading, and without a text of anybody."""
    async with serve() as server:
        await finish(server, Group("first"), Group("second"), Group("failed", note=REJECTED))
        first = Group("partial/one")
        async with cancelled_after([server.client.caller(first.body(slot)) for slot in (0, 2)]) as callers:
            await server.client.until_members(first.name, 2, callers=2)
            page = await browser.open(server.address + "/")
            await expect(page.locator("#state")).to_have_text("ready")
            await expect(await tile(page, "collecting")).to_have_text("1")
            await expect(await tile(page, "at the judge")).to_have_text("0")
            await expect(await tile(page, "completed, last hour")).to_have_text("2")
            await expect(await tile(page, "failed, last hour")).to_have_text("1")
            await expect(await tile(page, "callers waiting")).to_have_text("2")
            await expect(rows(page, "collecting")).to_have_count(1)
            cells = rows(page, "collecting").locator("td")
            await expect(cells.nth(0)).to_have_text("partial/one")
            await expect(cells.nth(1)).to_have_text("2 of 4")
            await expect(cells.nth(2)).to_have_text("1, 3")
            every = [*Group("first").rewards(), *Group("second").rewards()]
            said = f"{shown(sum(every) / 8)} on average, {shown(min(every))} to {shown(max(every))} (8)"
            await expect(page.locator("#rewards-summary")).to_have_text(said)
            await expect(page.get_by_role("img", name="Groups a minute: 2 completed, 1 failed")).to_be_visible()
            finished = rows(page, "finished")
            await expect(finished).to_have_count(3)
            await expect(finished.nth(0)).to_contain_text("✕ the judge failed")
            await expect(finished.nth(1)).to_contain_text("✓ completed")
            await expect(rows(page, "errors").first).to_contain_text("request rejected")
            await expect(rows(page, "failures").first).to_contain_text("rejected (status 400)")
            judge.hold()
            callers += [server.client.caller(first.body(slot)) for slot in (1, 3)]
            await expect(await tile(page, "at the judge")).to_have_text("1")
            await expect(rows(page, "collecting")).to_have_count(0)
            await expect(page.get_by_text("No group is collecting.")).to_be_visible()
            await expect(rows(page, "judging").first).to_contain_text("partial/one")
            judge.let_go()
            await expect(await tile(page, "completed, last hour")).to_have_text("3")
            await asyncio.gather(*callers)
        text = await page.locator("body").inner_text() + await page.content()
        assert [secret for secret in SECRETS if secret in text] == []


async def test_a_browser_logs_in_and_out(browser: Browser, serve: Serve) -> None:
    """H12: sent to the login, told about a wrong token, let in by the right one, and out again."""
    async with serve(env={"GROUPJUDGE_SERVER__AUTH_TOKEN": TOKEN}) as server:
        page = await browser.open(server.address + "/")
        await expect(page).to_have_url(f"{server.address}/login")
        assert browser.complaints == []
        await expect(page.get_by_label("Token of this server")).to_be_focused()
        await page.keyboard.type("wrong")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("alert")).to_contain_text("not this server's token")
        (complaint,) = browser.complaints
        assert "401" in complaint
        browser.complaints.clear()
        await expect(page.get_by_label("Token of this server")).to_be_focused()  # the page may be seen before
        await page.keyboard.type(TOKEN)
        await page.keyboard.press("Enter")
        await expect(page).to_have_url(f"{server.address}/")
        await expect(page.locator("#state")).to_have_text("ready")
        assert await page.evaluate("document.cookie") == ""
        await page.get_by_role("button", name="Log out").click()
        await expect(page).to_have_url(f"{server.address}/login")
        await page.goto(server.address + "/")
        await expect(page).to_have_url(f"{server.address}/login")


async def test_a_login_that_ends_leads_back_to_the_form(browser: Browser, serve: Serve) -> None:
    """H12: an open page does not go on showing what it knew."""
    async with serve(env={"GROUPJUDGE_SERVER__AUTH_TOKEN": TOKEN}) as server:
        page = await browser.open(server.address + "/login")
        await page.get_by_label("Token of this server").fill(TOKEN)
        await page.get_by_role("button", name="Log in").click()
        await expect(page.locator("#state")).to_have_text("ready")
        await page.context.clear_cookies()
        await expect(page).to_have_url(f"{server.address}/login")
        assert all("401" in complaint for complaint in browser.complaints)
        browser.complaints.clear()


async def test_texts_are_shown_as_texts_where_that_is_switched_on(browser: Browser, serve: Serve) -> None:
    """F5: whatever an id, a question or an answer holds, a browser runs nothing of it."""
    async with serve({"server.show_texts": True}) as server:
        group = Group(f"id {MARKUP}", note=MARKUP)
        async with cancelled_after([server.client.caller(group.body(1))]):
            await server.client.until_members(group.name, 1)
            page = await browser.open(server.address + "/")
            row = rows(page, "collecting").first
            await expect(row.locator(".id")).to_have_text(group.name)
            await row.get_by_text("Texts", exact=True).click()
            await expect(row.locator("dd").nth(1)).to_have_text(group.text(1))
            await expect(row.locator("dd").first).to_contain_text(MARKUP)
            assert await page.locator("img, script:not([src])").count() == 0


async def test_texts_are_not_offered_where_that_is_switched_off(browser: Browser, serve: Serve) -> None:
    """F5."""
    async with serve() as server, cancelled_after([server.client.caller(Group("g").body(1))]):
        page = await browser.open(server.address + "/")
        await expect(rows(page, "collecting")).to_have_count(1)
        await expect(page.get_by_text("Texts", exact=True)).to_have_count(0)


async def test_a_keyboard_reaches_everything_and_sees_where_it_is(browser: Browser, serve: Serve) -> None:
    """Every control in its order, each with a name and a mark of the focus; Enter does what a click does."""
    async with serve() as server:
        await finish(server, Group("g"))
        page = await browser.open(server.address + "/")
        await expect(page.locator("#state")).to_have_text("ready")
        reached = []
        for _ in range(5):
            await page.keyboard.press("Tab")
            focused = page.locator(":focus")
            reached.append(await focused.inner_text())
            outline = await focused.evaluate("e => getComputedStyle(e).outlineStyle + getComputedStyle(e).outlineWidth")
            assert outline == "solid3px", reached
        assert reached == ["Skip to the numbers", "Pause", "Interface", "Metrics", "The same as a table"]
        await page.keyboard.press("Enter")
        await expect(rows(page, "minutes")).to_have_count(1)
        focusable = "a[href], button, input, select, textarea, summary, [tabindex='0']"
        hidden = await page.locator(focusable).evaluate_all("all => all.filter(e => !e.offsetParent).length")
        assert hidden == 1, "only the button that logs out is not there"


async def test_it_stops_asking_while_it_is_paused(browser: Browser, serve: Serve) -> None:
    """What somebody reads stays as it is, until it is told to go on."""
    async with serve() as server:
        page = await browser.open(server.address + "/")
        await expect(await tile(page, "completed, last hour")).to_have_text("0")
        button = page.get_by_role("button", name="Pause")
        await button.click()
        await expect(button).to_have_attribute("aria-pressed", "true")
        await finish(server, Group("g"))
        await expect(page.locator("#updated")).to_contain_text("paused, as of 3 s ago")
        await expect(await tile(page, "completed, last hour")).to_have_text("0")
        await button.click()
        await expect(await tile(page, "completed, last hour")).to_have_text("1")


async def test_it_says_when_the_server_is_gone(browser: Browser, serve: Serve) -> None:
    """H8: in a word that is read out, not only by a colour."""
    async with serve() as server:
        page = await browser.open(server.address + "/")
        state = page.get_by_role("status")
        await expect(state).to_have_text("ready")
        await server.stop()
        await expect(state).to_have_text("the server does not answer")
        await expect(state).to_have_attribute("data-state", "bad")
        assert all("ERR_CONNECTION" in complaint or "ERR_EMPTY" in complaint for complaint in browser.complaints)
        browser.complaints.clear()


async def test_it_says_why_the_judge_is_not_ready(browser: Browser, serve: Serve) -> None:
    """H8."""
    async with serve({"judge.base_url": "http://127.0.0.1:9/v1"}) as server:
        page = await browser.open(server.address + "/")
        await expect(page.locator("#state")).to_contain_text("not ready: cannot connect to the judge")


async def test_nothing_lies_beside_the_window_and_all_can_be_read(browser: Browser, serve: Serve) -> None:
    """No scrolling to the side however long an id is; texts stand out from what is behind them (WCAG AA, 4.5 : 1)."""
    async with serve() as server:
        long = Group("x" * 512, size=60)
        await finish(server, Group("y" * 500), Group("failed", note=REJECTED))
        async with cancelled_after(server.client.caller(long.body(slot)) for slot in range(0, 20, 2)):
            await server.client.until_members(long.name, 10)
            page = await browser.open(server.address + "/")
            await expect(page.locator("#state")).to_have_text("ready")
            await page.locator("#by-minute summary").click()
            await expect(rows(page, "minutes").first).to_be_visible()
            await page.emulate_media(reduced_motion="reduce")
            for width, scheme in product((360, 700, 1280), SCHEMES):
                await page.set_viewport_size({"width": width, "height": 900})
                await page.emulate_media(color_scheme=scheme)
                assert await page.evaluate("document.documentElement.scrollWidth") == width
                assert await page.evaluate(FAINT) == []
                assert await page.evaluate(CUT_OFF) == []


async def test_two_looks_at_one_run_show_the_same_groups_once(browser: Browser, serve: Serve) -> None:
    """H8: rows keep their place while the page goes on; a group that is done again is a row of its own."""
    async with serve() as server:
        page = await browser.open(server.address + "/")
        await finish(server, Group("g"), replace(Group("h"), attempt=1))
        await expect(rows(page, "finished")).to_have_count(2)
        await finish(server, replace(Group("g"), attempt=1))
        await expect(rows(page, "finished").nth(0)).to_contain_text("g · attempt 1")
        await expect(rows(page, "finished")).to_have_count(2)


FAINT = """() => {
  const numbers = (color) => (color.match(/[0-9.]+/g) || []).map(Number);
  const light = (color) => {
    const [r, g, b] = numbers(color).map((each) => each / 255)
      .map((each) => (each <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const color = getComputedStyle(at).backgroundColor;
      if (numbers(color)[3] !== 0) return color;
    }
    return "rgb(255, 255, 255)";
  };
  const faint = [];
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!own || !element.offsetParent) continue;
    const [one, other] = [light(getComputedStyle(element).color), light(behind(element))];
    const contrast = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    if (contrast < 4.5) faint.push(`${element.textContent.slice(0, 40)}: ${contrast.toFixed(2)}`);
  }
  return faint;
}"""
CUT_OFF = """() => [...document.querySelectorAll("main *")]
  .filter((each) => each.offsetParent && each.getBoundingClientRect().right > window.innerWidth + 0.5)
  .map((each) => each.tagName + " " + each.textContent.slice(0, 30))"""
