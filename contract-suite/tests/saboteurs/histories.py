"""Faults in histories."""

from sabotage import Saboteur

SABOTEURS: dict[str, Saboteur] = {}
