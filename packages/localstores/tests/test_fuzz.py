"""The owner's surface, fuzzed by its own OpenAPI document."""

import asyncio
import collections
import json
import threading

import jsonschema_rs
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.specs.openapi import checks as openapi_checks

from alkstore_localstores.owner.owner import QueueOwner
from alkstore_localstores.owner.server import serving

CHECKS = [
    openapi_checks.status_code_conformance,
    openapi_checks.content_type_conformance,
    openapi_checks.response_schema_conformance,
]


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """An owner in a thread of its own, and the token of its queue."""
    state = tmp_path_factory.mktemp("fuzz")
    found = []
    ready, ended = threading.Event(), threading.Event()

    async def serve() -> None:
        async with QueueOwner(state) as owner:
            token = await owner.create("jobs")
            async with serving(owner) as address:
                found.append((address, token))
                ready.set()
                await asyncio.to_thread(ended.wait)

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    assert ready.wait(30)
    yield found[0]
    ended.set()
    thread.join()


@pytest.fixture(scope="module")
def document(address):
    """The document as it is served."""
    url, token = address
    headers = {"Authorization": f"Bearer {token}"}
    return requests.get(f"{url}/openapi.json", headers=headers, timeout=10).json()


def fuzz(address, document, mode, examples, statuses, **given_parts):
    """Make calls of the document's one operation, and hold each answer to the document."""
    url, token = address
    operation = schemathesis.openapi.from_dict(document)["/queues/{resource}"]["POST"]
    cases = operation.as_strategy(generation_mode=mode, **given_parts)
    headers = {"Authorization": f"Bearer {token}"}
    described = jsonschema_rs.validator_for(
        {"$ref": "#/components/schemas/Request", "components": document["components"]}
    )
    seen = collections.Counter()

    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=cases)
    def call(case) -> None:
        answer = case.call(base_url=url, headers=headers, timeout=10)
        case.validate_response(answer, checks=CHECKS)
        assert answer.status_code in statuses, answer.text
        assert answer.status_code not in {200, 502} or described.is_valid(case.body)
        seen[answer.status_code] += 1

    call()
    return seen


def test_what_the_document_allows_is_done(address, document):
    """All that its schema describes is carried out, or refused for the receipt it names."""
    seen = fuzz(
        address,
        document,
        GenerationMode.POSITIVE,
        80,
        # A message may be too large or too deep, which the schema does not say.
        {200, 400, 502},
        path_parameters={"resource": "jobs"},
    )
    assert seen[200] > sum(seen.values()) / 3


def test_what_the_document_forbids_is_refused(address, document):
    """With an answer that it knows; nothing is done that it does not describe."""
    seen = fuzz(
        address,
        document,
        GenerationMode.NEGATIVE,
        120,
        # Not the body alone is made wrong: what is left of a request may be right.
        {200, 400, 401, 502},
        path_parameters={"resource": "jobs"},
        headers={},
    )
    assert seen[400] > 10


def test_no_made_up_queue_is_served(address, document):
    """Whatever its name, with a good request: it is not known."""
    body = {"operation": "stats"}
    seen = fuzz(address, document, GenerationMode.POSITIVE, 40, {401}, body=body)
    assert seen[401] > 0


@given(body=st.binary(max_size=200))
@settings(max_examples=60, deadline=None, database=None)
def test_bytes_are_refused_as_documented(address, document, body):
    """What is no JSON at all gets the envelope that the document promises."""
    url, token = address
    answer = requests.post(
        f"{url}/queues/jobs", data=body, headers={"Authorization": f"Bearer {token}"}, timeout=10
    )
    assert 400 == answer.status_code
    assert (
        set(document["components"]["schemas"]["Error"]["required"])
        <= json.loads(answer.text).keys()
    )
