"""Faults in how numbers are judged, and at the ends of their range."""

from sabotage import Saboteur

SABOTEURS: dict[str, Saboteur] = {}
