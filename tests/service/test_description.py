"""The description of the interface, and the page that is made from it (H8)."""

from __future__ import annotations

from groupjudge.service import wire
from groupjudge.service.description import description, docs_page, openapi_json


def test_every_operation_says_what_it_replies() -> None:
    """H8: a summary, and a text for each status."""
    for path, operations in description()["paths"].items():
        for operation in operations.values():
            assert operation["summary"], path
            assert operation["responses"], path
            for reply in operation["responses"].values():
                assert "description" in reply or "$ref" in reply


def test_the_statuses_of_verify_are_those_of_the_table() -> None:
    """H5: what `/verify` can be refused with is described."""
    described = set(description()["paths"]["/verify"]["post"]["responses"])
    of_the_front = {"401", "404", "405", "500"}
    assert {str(status) for status in wire.STATUS.values()} - of_the_front <= described


def test_both_are_bytes_that_do_not_change() -> None:
    """H8: made once; what stands between backquotes in the description is code on the page."""
    assert openapi_json() is openapi_json()
    assert b"<code>return=minimal</code>" in docs_page()
    assert docs_page() is docs_page()
