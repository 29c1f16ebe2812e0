"""Pairs and rewards, pure: numbers in, numbers out. It knows no judge, no clock and no configuration file."""

from groupjudge.scoring.pairs import planned_pairs
from groupjudge.scoring.rewards import Scored, score_group
from groupjudge.scoring.rules import NotFinite, ScoringRules

__all__ = ["NotFinite", "Scored", "ScoringRules", "planned_pairs", "score_group"]
