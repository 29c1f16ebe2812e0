"""The Python client: one answer of a group, or a whole group, to its rewards (A4).

api       `Client` and `AsyncClient`, two drivers of the same steps      steps     what is asked, and when again
exchange  one request and its reply over one connection                  plain     what is sent, as JSON
values    what comes back                                                replies   from a reply to a value or an error
troubles  what is logged of failed tries, and which tokens can be sent
"""

from groupjudge.client.api import AsyncClient, Client
from groupjudge.client.values import Judged, JudgeFailure, Outcome, Rewarded, Submission

__all__ = ["AsyncClient", "Client", "JudgeFailure", "Judged", "Outcome", "Rewarded", "Submission"]
