"""Faults in payloads."""

from sabotage import Saboteur

SABOTEURS: dict[str, Saboteur] = {}
