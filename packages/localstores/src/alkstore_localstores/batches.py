"""Batches: any length, in requests of at most ten, with one outcome for each input."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from alkstore_localstores.errors import QUEUE_BATCH_RESPONSE_INVALID, LocalStoreError
from alkstore_localstores.messages import (
    BATCH_LIMIT,
    AckOutcome,
    Payload,
    SendOutcome,
    check_in_batch,
    check_receipt,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")


async def send_in_requests(
    values: Iterable[Any],
    encode: Callable[[Any], Payload],
    request: Callable[[list[Payload]], Awaitable[Sequence[SendOutcome]]],
) -> list[SendOutcome]:
    """Send each value; what cannot be sent is rejected and left out of the requests."""

    def prepare(value: Any) -> Payload:
        payload = encode(value)
        check_in_batch(payload)
        return payload

    return await _in_requests(values, prepare, request, _rejected, _unknown)


async def ack_in_requests(
    receipts: Iterable[str], request: Callable[[list[str]], Awaitable[Sequence[AckOutcome]]]
) -> list[AckOutcome]:
    """Acknowledge each receipt."""

    def prepare(receipt: str) -> str:
        check_receipt(receipt)
        return receipt

    return await _in_requests(receipts, prepare, request, _failed, _failed)


async def _in_requests(
    inputs: Iterable[Any],
    prepare: Callable[[Any], Item],
    request: Callable[[list[Item]], Awaitable[Sequence[Outcome]]],
    refused: Callable[[LocalStoreError], Outcome],
    unanswered: Callable[[LocalStoreError], Outcome],
) -> list[Outcome]:
    outcomes: dict[int, Outcome] = {}
    items: dict[int, Item] = {}
    count = 0
    for count, value in enumerate(inputs, 1):
        try:
            items[count] = prepare(value)
        except LocalStoreError as error:
            outcomes[count] = refused(error)
    places = list(items)
    for start in range(0, len(places), BATCH_LIMIT):
        part = places[start : start + BATCH_LIMIT]
        try:
            answer = await request([items[place] for place in part])
            _check_length(answer, len(part))
        except LocalStoreError as error:
            # Nobody else's items: requests before this one are answered, later ones still go out.
            outcomes.update(dict.fromkeys(part, unanswered(error)))
        else:
            outcomes.update(zip(part, answer, strict=True))
    return [outcomes[place] for place in range(1, count + 1)]


def _check_length(answer: Sequence[Any], expected: int) -> None:
    if len(answer) != expected:
        raise LocalStoreError(
            QUEUE_BATCH_RESPONSE_INVALID,
            f"the answer has {len(answer)} outcomes for {expected} items, so nobody can tell "
            "which is whose",
        )


def _rejected(error: LocalStoreError) -> SendOutcome:
    return SendOutcome("rejected", error.code, error.message)


def _unknown(error: LocalStoreError) -> SendOutcome:
    return SendOutcome("unknown", error.code, error.message)


def _failed(error: LocalStoreError) -> AckOutcome:
    return AckOutcome("failed", error.code, error.message)
