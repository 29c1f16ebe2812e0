"""Replies on their way out (H2, H11, P9)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import takewhile

import pytest
from starlette.types import Message

from groupjudge.service.reply import TOGETHER, send_pieces, send_reply
from groupjudge.service.wire import Reply

LARGE = TOGETHER + 1


class Caller:
    """Takes messages; `paused` is set while it reads nothing, and then `send` waits as a server's does."""

    def __init__(self, log: list[str] | None = None, name: str = "") -> None:
        self.messages: list[Message] = []
        self.reads = asyncio.Event()
        self.reads.set()
        self.pause_after = 1 << 60
        self._log = [] if log is None else log
        self._name = name

    def is_slow(self) -> bool:
        return not self.reads.is_set()

    async def send(self, message: Message) -> None:
        await self.reads.wait()
        self.messages.append(message)
        if message.get("body"):
            self._log.append(self._name)
            self.pause_after -= 1
            if not self.pause_after:
                self.reads.clear()

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.messages[1:])

    def check_whole(self, body: bytes) -> None:
        """The head says the length, the last part and no other is the last."""
        assert self.body == body
        assert (b"content-length", b"%d" % len(body)) in self.messages[0]["headers"]
        assert [message.get("more_body", False) for message in self.messages[1:]][-1] is False
        more = takewhile(lambda message: message.get("more_body", False), self.messages[1:])
        assert len(list(more)) == len(self.messages) - 2


async def test_a_small_reply_is_one_head_and_one_body() -> None:
    caller = Caller()
    await send_reply(caller.send, Reply(409, b"{}", ((b"x", b"y"),)))
    caller.check_whole(b"{}")
    assert len(caller.messages) == 2
    assert (b"x", b"y") in caller.messages[0]["headers"]


@pytest.mark.parametrize(
    "pieces",
    [
        [b"a", b"", b"b" * 10],
        [b"a" * TOGETHER],
        [b"a", b"b" * LARGE, b"", b"c"],
        [b"a" * LARGE, b"b" * LARGE],
        [b"a" * 40_000] * 5,
        [b"", b"a" * LARGE, b""],
    ],
)
async def test_every_byte_goes_out_once_and_in_order(pieces: list[bytes]) -> None:
    """H2: whatever goes out together."""
    caller, body = Caller(), b"".join(pieces)
    await send_pieces(caller.send, len(body), pieces, asyncio.Lock(), caller.is_slow)
    caller.check_whole(body)


async def test_others_are_served_between_the_portions_of_a_large_reply() -> None:
    """H11, P9: one portion at most goes out before the loop turns, however many replies leave at once."""
    log: list[str] = []
    turn, loop, done = asyncio.Lock(), asyncio.get_running_loop(), False

    def tick() -> None:
        log.append("loop")
        if not done:
            loop.call_soon(tick)

    callers = [Caller(log, "portion") for _ in range(5)]
    tick()
    replies = (send_pieces(each.send, 4 * LARGE, [b"x" * LARGE] * 4, turn, each.is_slow) for each in callers)
    await asyncio.gather(*replies)
    done = True
    for caller in callers:
        caller.check_whole(b"x" * 4 * LARGE)
    between = "".join(each[0] for each in log).split("l")
    assert max(map(len, between)) == 1
    assert sum(map(len, between)) == 20


async def test_a_caller_that_does_not_read_keeps_no_other_waiting() -> None:
    """P6: and of its reply no more is made than goes out."""
    made: list[int] = []

    def pieces() -> Iterator[bytes]:
        for number in range(4):
            made.append(number)
            yield b"x" * LARGE

    turn, slow, quick = asyncio.Lock(), Caller(), Caller()
    slow.pause_after = 1
    first = asyncio.create_task(send_pieces(slow.send, 4 * LARGE, pieces(), turn, slow.is_slow))
    await asyncio.sleep(0)
    await send_pieces(quick.send, 2 * LARGE, [b"y" * LARGE] * 2, turn, quick.is_slow)
    quick.check_whole(b"y" * 2 * LARGE)
    assert not first.done()
    assert made == [0, 1]  # the second to see that the first is a portion of its own
    slow.reads.set()
    await first
    slow.check_whole(b"x" * 4 * LARGE)


async def test_a_cancelled_reply_gives_its_turn_up() -> None:
    turn, caller = asyncio.Lock(), Caller()
    leaving = asyncio.create_task(send_pieces(caller.send, 4 * LARGE, [b"x" * LARGE] * 4, turn, caller.is_slow))
    await asyncio.sleep(0)
    assert turn.locked()
    leaving.cancel()
    await asyncio.gather(leaving, return_exceptions=True)
    assert not turn.locked()
