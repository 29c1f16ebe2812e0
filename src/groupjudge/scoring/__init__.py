"""Pairs and rewards, pure: numbers in, numbers out. It knows no judge, no clock and no configuration file."""

from groupjudge.scoring.adaptive import next_pairs
from groupjudge.scoring.pairs import PairRules, first_pairs, planned_calls, planned_pairs
from groupjudge.scoring.rewards import Scored, score_group
from groupjudge.scoring.rules import NotFinite, ScoringRules

__all__ = [
    "NotFinite",
    "PairRules",
    "Scored",
    "ScoringRules",
    "first_pairs",
    "next_pairs",
    "planned_calls",
    "planned_pairs",
    "score_group",
]
