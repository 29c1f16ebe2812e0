"""Which groups a page shows, and how much of them."""

from __future__ import annotations

import json

from groupjudge.model import AnswerTexts, Message, Topic
from groupjudge.offline.groups import FileGroup
from groupjudge.offline.report.sample import ANSWERS_AT_MOST, QUESTION_AT_MOST, TEXT_AT_MOST, Sample
from groupjudge.offline.report.verdicts import Said


def group(line: int, size: int = 2, text: str = "a") -> FileGroup:
    topic = Topic((Message("user", f"question {line}"),))
    return FileGroup((line,), None, topic, (AnswerTexts(text, ""),) * size, tuple(range(size)))


def lines(sample: Sample, kind: str) -> list[int]:
    return [shown["line"] for shown in sample.shown() if kind in shown["kinds"]]


def test_the_groups_that_are_most_of_a_kind_are_shown() -> None:
    """Issue: a bounded, sensible sample: the first, the widest, the most torn, level ones, ones with defaults."""
    sample = Sample(3)
    for line in range(1, 1001):
        spread = line % 100 / 10
        torn = [Said(0, 1, 1, 2, 3)] * (line // 300) + [Said(0, 1, 2, 1, 3)]
        sample.add(group(line), {"rewards": [spread, 0.0]} | ({"failure_kind": "d"} if line == 777 else {}), torn)
    assert lines(sample, "first in the file") == [1, 2, 3]
    assert lines(sample, "widest spread of rewards") == [99, 199, 299]
    assert lines(sample, "verdicts at odds with the rewards") == [901, 902, 903]
    assert lines(sample, "all rewards equal") == [100, 200, 300]
    assert lines(sample, "with default scores") == [777]
    assert len(lines(sample, "by chance")) == 3
    assert len({shown["line"] for shown in sample.shown()}) == len(sample.shown()) <= 16


def test_a_page_shows_bounded_texts() -> None:
    """Issue: no page of gigabytes: long texts are cut, of large groups the best and the worst are shown."""
    sample = Sample(1)
    rewards = [float(slot) for slot in range(100)]
    verdicts = [Said(99, 0, 5, 1, 1), Said(50, 0, 5, 1, 1)]
    sample.add(group(1, 100, "x" * 1_000_000), {"rewards": rewards}, verdicts)
    (shown,) = sample.shown()
    slots = [member["slot"] for member in shown["members"]]
    assert slots == [*range(99, 87, -1), *range(11, -1, -1)]
    assert len(slots) == ANSWERS_AT_MOST
    assert shown["size"] == 100
    assert [verdict[:2] for verdict in shown["verdicts"]] == [[0, 23]]
    assert shown["members"][0]["length"] == 1_000_000
    assert len(json.dumps(shown)) < ANSWERS_AT_MOST * (TEXT_AT_MOST + 200)


def test_of_a_long_conversation_the_end_is_shown() -> None:
    """What was asked stands there."""
    turns = tuple(Message("user", f"{n}" * 3000) for n in range(4))
    sample = Sample(1)
    sample.add(group(1)._replace(topic=Topic(turns)), {"rewards": [1.0, 2.0]}, [])
    question = sample.shown()[0]["question"]
    assert [turn["role"] for turn in question] == ["", "user", "user"]
    assert question[-1]["content"] == "3" * 3000
    assert question[1]["content"] == "2" * (QUESTION_AT_MOST - 3000) + " ..."
