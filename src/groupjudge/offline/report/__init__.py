"""`--report`: one page about a judged file. Everything is added up while the file is read once more, in memory that
does not grow with it; only a sample of the groups is shown with its texts.

Needs the extra `report`: plotly draws the figures, jinja2 escapes every text.
"""

from groupjudge.offline.report.page import Report

__all__ = ["Report"]
