"""Faults in locks."""

from sabotage import Saboteur

SABOTEURS: dict[str, Saboteur] = {}
