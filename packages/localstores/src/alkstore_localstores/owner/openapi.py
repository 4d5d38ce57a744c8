"""The OpenAPI document of the owner: what it takes and what it may answer, and nothing else."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any, Final

from alkstore_localstores.errors import MEANINGS
from alkstore_localstores.messages import BATCH_LIMIT, RENEW_SECONDS
from alkstore_localstores.protocol import BODY_LIMIT

_RECEIPT: Final = {"type": "string"}


def document() -> dict[str, Any]:
    """The document, as JSON values."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Local queues",
            "version": version("alkstore-localstores"),
            "description": "The queues of one state directory, through the process that owns it. "
            "A request that is cut off, or whose answer is, may have been carried out. Other paths "
            "are answered with 404, other methods with 405, and what is no HTTP with 400; each "
            "with an error as below.",
        },
        "security": [{"token": []}],
        "paths": {
            "/queues/{resource}": {
                "parameters": [
                    {
                        "name": "resource",
                        "in": "path",
                        "required": True,
                        "schema": {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$"},
                    }
                ],
                "post": {
                    "operationId": "operate",
                    "summary": "Carry out one operation on a queue",
                    "requestBody": {
                        "required": True,
                        "description": f"At most {BODY_LIMIT} bytes.",
                        "content": {"application/json": {"schema": _ref("Request")}},
                    },
                    "responses": {
                        "200": _answer("Done, and durable", "Answer"),
                        "400": _failure("The request is at fault; nothing was done"),
                        "401": _failure("There is no such queue for this token"),
                        "408": _failure("The request took too long to arrive"),
                        "413": _failure("The body is too large"),
                        "431": _failure("The headers are too large"),
                        "500": _failure("The owner failed"),
                        "502": _failure("The queue refused, for example a stale receipt"),
                        "503": _failure("The queue cannot be opened now, or the owner is stopping"),
                    },
                },
            },
            "/openapi.json": {
                "get": {
                    "operationId": "describe",
                    "summary": "This document, for whoever has the token of any queue",
                    "responses": {
                        "200": {
                            "description": "The document",
                            "content": {"application/json": {"schema": {"type": "object"}}},
                        },
                        "401": _failure("This is the token of no queue"),
                    },
                }
            },
        },
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": _schemas(),
        },
    }


def _schemas() -> dict[str, Any]:
    count = {"type": "integer", "minimum": 0}
    requests: dict[str, dict[str, Any]] = {
        "send": {"message": _ref("Payload")},
        "sendBatch": {"messages": _many(_ref("Payload"))},
        "receive": {"maxMessages": {"type": "integer", "minimum": 1, "maximum": BATCH_LIMIT}},
        "ack": {"receipt": _RECEIPT},
        "ackBatch": {"receipts": _many(_RECEIPT)},
        "nack": {"receipt": _RECEIPT},
        "renew": {
            "receipt": _RECEIPT,
            "durationSeconds": {
                "type": "integer",
                "minimum": RENEW_SECONDS[0],
                "maximum": RENEW_SECONDS[1],
            },
        },
        "purge": {},
        "stats": {},
    }
    return {
        "Request": {
            "oneOf": [
                _object({"operation": {"const": name}, **fields})
                for name, fields in requests.items()
            ]
        },
        "Payload": {
            "oneOf": [
                _object({"type": {"const": "json"}, "data": {}}),
                _object({"type": {"const": "text"}, "data": {"type": "string"}}),
            ]
        },
        "Answer": {
            "anyOf": [
                {"type": "null", "description": "To send, ack, nack, renew and purge."},
                _many(_ref("Message")),
                _many(_ref("Outcome")),
                _ref("Stats"),
            ]
        },
        "Message": _object(
            {
                "payload": _ref("Payload"),
                "receiptHandle": _RECEIPT,
                "attempt": {"type": "integer", "minimum": 1},
            }
        ),
        "Outcome": {
            "oneOf": [
                _object({"status": {"enum": ["sent", "acknowledged"]}}),
                _object(
                    {
                        "status": {"enum": ["rejected", "unknown", "failed"]},
                        "code": {"type": "string"},
                        "message": {"type": "string"},
                    }
                ),
            ]
        },
        "Stats": _object({"total": count, "visible": count, "inFlight": count, "delayed": count}),
        "Error": {
            "type": "object",
            "properties": {
                "code": {"enum": sorted(MEANINGS)},
                "message": {"type": "string"},
                "context": {"type": "object"},
                "hint": {"type": "string"},
                "retryable": {"type": "boolean"},
                "internal": {"type": "boolean"},
                "httpStatusCode": {"type": "integer"},
                "source": _ref("Error"),
            },
            "required": ["code", "message", "retryable", "internal", "httpStatusCode"],
            "additionalProperties": False,
        },
    }


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _many(item: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": item, "maxItems": BATCH_LIMIT}


def _ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


def _answer(description: str, name: str) -> dict[str, Any]:
    return {
        "description": description,
        "content": {"application/json": {"schema": _ref(name)}},
    }


def _failure(description: str) -> dict[str, Any]:
    return _answer(description, "Error")
