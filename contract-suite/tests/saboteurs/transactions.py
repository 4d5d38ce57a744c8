"""Faults in transactions."""

from sabotage import Saboteur

SABOTEURS: dict[str, Saboteur] = {}
