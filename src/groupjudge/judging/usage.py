"""What judges cost (F12): requests, tokens and money, in all and by group, and budgets that end judging.

A request counts as soon as it goes out, so a budget of calls is kept to the call. Tokens are known when a reply has
come: a budget of tokens or money is exceeded by what was under way when it was reached, and by no more; nothing is put
aside for calls under way, or judging would end while there is budget left. A reply that names no tokens costs none.

Each group is judged in a task of its own, and tasks inherit the context they are made in: so a meter finds the group's
account there, whatever tasks judging starts.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from groupjudge.model import JudgeUsage

_MILLION = 1_000_000


class Prices(NamedTuple):
    """Of a million tokens, in one currency."""

    prompt: float = 0.0
    completion: float = 0.0


class Budget(NamedTuple):
    """What may be used in all: requests, tokens of both kinds, money. None: no limit."""

    calls: int | None = None
    tokens: int | None = None
    money: float | None = None


@dataclass(slots=True)
class Account:
    """What one judge was asked, and what it counted."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0


Accounts: TypeAlias = dict["Meter", Account]
_group: ContextVar[Accounts | None] = ContextVar("_group", default=None)


class Meter:
    """Counts what one judge costs, for all groups and for the one that is being judged."""

    def __init__(
        self, name: str = "judge", prices: Prices | None = None, budget: Budget | None = None, key: str = "judge"
    ) -> None:
        """`key` is where the judge stands in the configuration."""
        self.name = name
        self.total = Account()
        self._prices = prices or Prices()
        self._budget = budget or Budget()
        self._key = key
        self._is_limited = self._budget != Budget()

    def sent(self) -> None:
        """A request goes out."""
        self.total.calls += 1
        if (account := self._of_group()) is not None:
            account.calls += 1

    def used(self, prompt_tokens: int, completion_tokens: int) -> None:
        """A reply named its tokens."""
        for account in (self.total, self._of_group()):
            if account is not None:
                account.prompt_tokens += prompt_tokens
                account.completion_tokens += completion_tokens

    def why_spent(self) -> str | None:
        """None as long as the budget lasts, else which is used up and what to do."""
        if not self._is_limited:
            return None
        now, budget = self.usage(self.total), self._budget
        tokens = now.prompt_tokens + now.completion_tokens
        for what, used, most in (("calls", now.calls, budget.calls), ("tokens", tokens, budget.tokens)):
            if most is not None and used >= most:
                return self._spent(what, f"{used:,} of {most:,} {what}")
        if budget.money is not None and (now.money or 0.0) >= budget.money:
            return self._spent("money", f"{now.money:,.2f} of {budget.money:,.2f}")
        return None

    def usage(self, account: Account) -> JudgeUsage:
        """`account` as a value, with its price where there are prices."""
        prices = self._prices
        money = (account.prompt_tokens * prices.prompt + account.completion_tokens * prices.completion) / _MILLION
        tokens = account.prompt_tokens, account.completion_tokens
        return JudgeUsage(self.name, account.calls, *tokens, money if any(prices) else None)

    def _spent(self, what: str, how_much: str) -> str:
        return f"the budget of {self.name} is used up ({how_much}): raise {self._key}.budget.{what} and start anew"

    def _of_group(self) -> Account | None:
        accounts = _group.get()
        if accounts is None:
            return None
        account = accounts.get(self)
        if account is None:
            account = accounts[self] = Account()
        return account


@contextmanager
def group_accounts(accounts: Accounts | None = None) -> Iterator[Accounts]:
    """What the group costs that is judged inside: by judge, filled as it goes. `accounts`: what it cost before."""
    accounts = {} if accounts is None else accounts
    before = _group.set(accounts)
    try:
        yield accounts
    finally:
        _group.reset(before)


def usages_of(accounts: Accounts) -> tuple[JudgeUsage, ...]:
    """As values, in the order of the judges' names."""
    return tuple(sorted(meter.usage(account) for meter, account in accounts.items()))
