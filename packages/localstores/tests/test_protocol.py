"""Both sides of the protocol agree: what one writes the other reads."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alkstore_localstores.jsontext import parse
from alkstore_localstores.messages import (
    ACKNOWLEDGED,
    SENT,
    AckOutcome,
    QueueMessage,
    QueueStats,
    SendOutcome,
    json_payload,
    text_payload,
)
from alkstore_localstores.owner.openapi import document
from alkstore_localstores.protocol import (
    BODY_LIMIT,
    Request,
    read_acked,
    read_messages,
    read_null,
    read_request,
    read_sent,
    read_stats,
    write_messages,
    write_outcomes,
    write_request,
    write_stats,
)

texts = st.text(st.characters(exclude_categories=["Cs"]))
integers = st.integers(-(2**63), 2**64 - 1)
scalars = st.none() | st.booleans() | integers | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    scalars | texts, lambda inner: st.lists(inner) | st.dictionaries(texts, inner)
)
payloads = values.map(json_payload) | texts.map(text_payload)


def nested(depth):
    """So many arrays in each other."""
    value = 0
    for _ in range(depth):
        value = [value]
    return value


@given(payloads, st.lists(payloads, max_size=10))
def test_messages_arrive_as_they_were_sent(payload, many):
    """The stored text is the same on either way into the queue."""
    assert Request("send", (payload,)) == read_request(write_request("send", message=payload))
    assert Request("sendBatch", (many,)) == read_request(write_request("sendBatch", messages=many))


@given(texts, st.lists(texts, max_size=10), st.integers(1, 10), st.integers(1, 600))
def test_other_requests_arrive_as_they_were_sent(receipt, receipts, count, seconds):
    """Receipts are any text."""
    for operation in ("ack", "nack"):
        written = write_request(operation, receipt=receipt)
        assert Request(operation, (receipt,)) == read_request(written)
    written = write_request("ackBatch", receipts=receipts)
    assert Request("ackBatch", (receipts,)) == read_request(written)
    written = write_request("receive", maxMessages=count)
    assert Request("receive", (count,)) == read_request(written)
    written = write_request("renew", receipt=receipt, durationSeconds=seconds)
    assert Request("renew", (receipt, seconds)) == read_request(written)
    for operation in ("purge", "stats"):
        assert Request(operation) == read_request(write_request(operation))


@given(st.lists(st.builds(QueueMessage, st.just("json"), values, texts, st.integers(1, 2**63))))
def test_answers_arrive_as_they_were_given(messages):
    """Payloads keep their values, to the last digit."""
    found = read_messages(parse(write_messages(messages)))
    assert [(m.payload_type, m.receipt_handle, m.attempt) for m in messages] == [
        (m.payload_type, m.receipt_handle, m.attempt) for m in found
    ]
    expected = [json_payload(message.payload) for message in messages]
    assert expected == [json_payload(message.payload) for message in found]


def test_the_deepest_message_passes():
    """What may be stored may be sent and received: the envelope does not count."""
    deepest = nested(127)
    payload = json_payload(deepest)
    assert Request("send", (payload,)) == read_request(write_request("send", message=payload))
    message = QueueMessage("json", deepest, "1:x", 1)
    assert [message] == read_messages(parse(write_messages([message])))


def test_outcomes_and_counts_arrive_as_they_were_given():
    """With codes and messages where there are some."""
    sent = [SENT, SendOutcome("rejected", "C", "m"), SendOutcome("unknown", "C", "m")]
    assert sent == read_sent(parse(write_outcomes(sent)))
    acked = [ACKNOWLEDGED, AckOutcome("failed", "C", "m")]
    assert acked == read_acked(parse(write_outcomes(acked)))
    stats = QueueStats(6, 1, 2, 3)
    assert stats == read_stats(parse(write_stats(stats)))
    assert {"total": 6, "visible": 1, "inFlight": 2, "delayed": 3} == json.loads(write_stats(stats))


@pytest.mark.parametrize(
    ("read", "answer"),
    [
        (read_null, False),
        (read_null, []),
        (read_messages, None),
        (read_messages, [{}]),
        (
            read_messages,
            [{"payload": {"type": "text", "data": 1}, "receiptHandle": "x", "attempt": 1}],
        ),
        (
            read_messages,
            [{"payload": {"type": "xml", "data": ""}, "receiptHandle": "x", "attempt": 1}],
        ),
        (
            read_messages,
            [{"payload": {"type": "json", "data": 1}, "receiptHandle": 1, "attempt": 1}],
        ),
        (
            read_messages,
            [{"payload": {"type": "json", "data": 1}, "receiptHandle": "x", "attempt": None}],
        ),
        (read_sent, [{"status": "acknowledged"}]),
        (read_sent, [{"status": "unknown"}]),
        (read_acked, [{"status": "sent"}]),
        (read_acked, {"status": "acknowledged"}),
        (read_stats, {"total": 1}),
        (read_stats, {"total": "1", "visible": 1, "inFlight": 0, "delayed": 0}),
        (read_stats, None),
    ],
)
def test_an_answer_of_another_shape_is_an_error(read, answer):
    """Nothing is made up where something is missing."""
    with pytest.raises(ValueError, match="it is not"):
        read(answer)


def test_ten_of_the_largest_messages_fit_under_the_cap():
    """In this very writing of them."""
    payload = text_payload("\x01" * 65_536)
    assert len(write_request("sendBatch", messages=[payload] * 10)) < BODY_LIMIT


def test_the_document_names_every_operation():
    """And no other."""
    schemas = document()["components"]["schemas"]
    described = {
        option["properties"]["operation"]["const"] for option in schemas["Request"]["oneOf"]
    }
    operations = {"send", "sendBatch", "receive", "ack", "ackBatch", "nack", "renew"}
    assert operations | {"purge", "stats"} == described
