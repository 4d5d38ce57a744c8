"""Workers, consumers and what runs them: the loops around a store, written once."""

from alkstore_core.worker.apps import App
from alkstore_core.worker.consumers import Consumer
from alkstore_core.worker.endings import Ending, Outcome, ending
from alkstore_core.worker.handlers import CallNext, Handler, Middleware
from alkstore_core.worker.outcomes import ClaimLost, Fail, PoisonedEvent, Retry
from alkstore_core.worker.runner import Runner
from alkstore_core.worker.running import run
from alkstore_core.worker.workers import OutboxWorker, Worker

__all__ = [
    "App",
    "CallNext",
    "ClaimLost",
    "Consumer",
    "Ending",
    "Fail",
    "Handler",
    "Middleware",
    "OutboxWorker",
    "Outcome",
    "PoisonedEvent",
    "Retry",
    "Runner",
    "Worker",
    "ending",
    "run",
]
