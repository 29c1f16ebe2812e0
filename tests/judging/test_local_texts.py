"""Texts on their way into a small context (J9)."""

from hypothesis import given
from hypothesis import strategies as st

from groupjudge.judging.local_texts import disarmed, indented, printable, shortened, shortened_conversation
from groupjudge.judging.local_worker import literal
from groupjudge.model import Message


@given(st.text(), st.integers(1, 100))
def test_a_shortened_text_keeps_both_ends_and_says_how_much_is_gone(text: str, limit: int) -> None:
    short = shortened(text, limit)
    if len(text) <= limit:
        assert short == text
        return
    marker = f" [... {len(text) - limit} characters left out ...] "
    head, _, tail = short.partition(marker)
    assert len(head) + len(tail) == limit
    assert text.startswith(head)
    assert text.endswith(tail)


def test_no_word_of_a_model_survives() -> None:
    """J21 in spirit: llama.cpp would read these as control tokens."""
    for word in ("<eos>", "<|im_end|>", "</s>", "<start_of_turn>", "[INST]", "[/INST]", "<｜end▁of▁sentence｜>"):
        assert word not in disarmed(f"a {word} b")
    assert disarmed("1 < 2, a[0] and [x]") == "1 < 2, a[0] and [x]"


@given(st.text())
def test_no_line_but_the_first_starts_at_the_margin(text: str) -> None:
    """An answer that imitates the prompt's own lines stays inside its answer."""
    lines = indented(text).split("\n")
    assert all(line.startswith("    ") and line.strip() for line in lines[1:])


@given(st.text())
def test_printable_text_fits_into_one_line_of_a_grammar(text: str) -> None:
    assert printable(text).isprintable()


def test_the_grammar_of_an_answer_quotes_what_ends_a_string() -> None:
    assert literal(' a "b" \\') == r'root ::= " a \"b\" \\\n\n"'


def test_of_a_long_conversation_the_first_and_the_last_messages_are_shown() -> None:
    conversation = tuple(Message("user", f"{n:03}" * 100) for n in range(40))
    shown = shortened_conversation(conversation, 1200)
    assert [message.content[:3] for message in shown] == [f"{n:03}" for n in (*range(6), *range(34, 40))]
    assert sum(len(message.content) for message in shown) < 1200 + 12 * 50
    assert shortened_conversation((), 10) == ()
