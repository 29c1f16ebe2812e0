"""Pairs and rewards, pure: numbers in, numbers out. It knows no judge, no clock and no configuration file."""

from groupjudge.scoring.adaptive import next_pairs
from groupjudge.scoring.lists import ListRules, pairs_of, planned_list_calls, planned_lists
from groupjudge.scoring.pairs import PairRules, first_pairs, planned_calls, planned_pairs
from groupjudge.scoring.rewards import Scored, score_group
from groupjudge.scoring.rules import NotFinite, ScoringRules

__all__ = [
    "ListRules",
    "NotFinite",
    "PairRules",
    "Scored",
    "ScoringRules",
    "first_pairs",
    "next_pairs",
    "pairs_of",
    "planned_calls",
    "planned_list_calls",
    "planned_lists",
    "planned_pairs",
    "score_group",
]
