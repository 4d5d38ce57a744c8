"""Faults in scheduler."""

from sabotage import Saboteur

SABOTEURS: dict[str, Saboteur] = {}
