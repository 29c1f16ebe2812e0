"""An asyncio event loop whose time only events move, and in which servers can be killed.

What runs for a server runs in its context (`LIFE`). Once that life is over nothing of it is started any more, and its
threads do nothing more to the world: that is all that a crash is. Threads take time here, in which other things happen.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
import math
import random
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Protocol


class Life(Protocol):
    """A server's process."""

    alive: bool


LIFE: contextvars.ContextVar[Life | None] = contextvars.ContextVar("LIFE", default=None)


class VirtualLoop(asyncio.AbstractEventLoop):
    """As much of a loop as the service needs. `count` are the timers that rang: things that happened at their time."""

    def __init__(self, rng: random.Random, thread_s: float) -> None:
        self.now = 0.0
        self.count = 0
        self.failure: BaseException | None = None
        self._rng = rng
        self._thread_s = thread_s
        self._asked = 0
        self._ready: deque[asyncio.Handle] = deque()
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []

    # What asyncio asks of a loop

    def time(self) -> float:
        return self.now

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def call_soon(self, callback: Callable[..., object], *args: Any, context: Any = None) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any, context: Any = None) -> Any:
        return self.call_at(self.now + delay, callback, *args, context=context)

    def call_at(self, when: float, callback: Callable[..., object], *args: Any, context: Any = None) -> Any:
        self._asked += 1
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        heapq.heappush(self._timers, (when, self._asked, handle))
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """It stays where it is, and is passed over."""

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(self, coro: Any, *, name: str | None = None, context: Any = None) -> asyncio.Task[Any]:
        return asyncio.Task(coro, loop=self, name=name, context=context)

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> Any:
        """Done a little later, and known a little later still."""
        future = self.create_future()
        self.call_later(self._rng.random() * self._thread_s, self._thread, future, func, args)
        return future

    def _thread(self, future: asyncio.Future[Any], func: Callable[..., Any], args: tuple[Any, ...]) -> None:
        try:
            told: Callable[[], None] = _teller(future.set_result, future, func(*args))
        except Exception as error:
            told = _teller(future.set_exception, future, error)
        self.call_later(self._rng.random() * self._thread_s, told)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """A defect, unless it is only that a killed server left something undone."""
        error = context.get("exception")
        if error is not None and self.failure is None:
            self.failure = error

    # What the simulation asks

    def run(self, events: float = math.inf, until: Callable[[], bool] | None = None) -> None:
        """Until so many things have happened, nothing is left to happen, or `until` holds. Raises what went wrong."""
        end = self.count + events
        while self.count < end and self._step() and (until is None or not until()):
            pass

    @contextmanager
    def running(self) -> Iterator[None]:
        """It is the loop that everything finds."""
        asyncio._set_running_loop(self)
        try:
            yield
        finally:
            asyncio._set_running_loop(None)

    def _step(self) -> bool:
        self._run_ready()
        timers = self._timers
        while timers:
            due, _, handle = heapq.heappop(timers)
            if not handle.cancelled():
                self.now = max(self.now, due)
                self.count += 1
                self._do(handle)
                self._run_ready()
                return True
        return False

    def _run_ready(self) -> None:
        ready = self._ready
        while ready:
            self._do(ready.popleft())
            if self.failure is not None:
                raise self.failure

    @staticmethod
    def _do(handle: asyncio.Handle) -> None:
        if not handle.cancelled():
            life = handle._context.get(LIFE)
            if life is None or life.alive:
                handle._run()

    def jump(self, seconds: float) -> None:
        """The machine slept: what was due meanwhile happens late."""
        self.now += seconds

    def start(self, coro: Coroutine[Any, Any, Any], context: contextvars.Context | None = None) -> asyncio.Task[Any]:
        """A task whose failure is a failure of the whole run."""
        task = self.create_task(coro, context=context)
        task.add_done_callback(self._seen)
        return task

    def _seen(self, task: asyncio.Task[Any]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None and self.failure is None:
            self.failure = error


def _teller(tell: Callable[[Any], None], future: asyncio.Future[Any], value: Any) -> Callable[[], None]:
    def told() -> None:
        if not future.done():
            tell(value)

    return told
