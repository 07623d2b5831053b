"""Whatever is sent to a hook: never a 5xx, never more than one row, never an alert out of shape."""

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from connectors.alerts.body import BadDelivery, read_object
from connectors.alerts.kept import MAX_BYTES
from connectors.alerts.reading import CLOCK_SKEW, MAX_WINDOW
from connectors.alerts.senders import READERS
from contracts.alerts import HOOK_SOURCES, HookSource, request_of
from contracts.json_types import canonical_json
from nodes.router import checked_request
from tests.alert_worlds import NOW, SENT, arrival
from tests.hook_worlds import Hooks, make_home, serve_hooks, set_secrets

TIMES = st.sampled_from([
    "2026-11-24T09:00:00Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59-12:00", "2026-11-24",
    "now",
])  # fmt: skip
LEAVES = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=40) | TIMES
)  # fmt: skip
JSON = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=12,
)  # fmt: skip


@st.composite
def near_misses(draw: st.DrawFn, source: HookSource) -> dict[str, Any]:
    """A delivery of this source in which some values are anything at all, or gone."""
    body: dict[str, Any] = json.loads(json.dumps(draw(st.sampled_from(SENT[source]))))
    for _ in range(draw(st.integers(1, 4))):
        here: Any = body
        while isinstance(here, dict | list) and here:
            keys = list(here) if isinstance(here, dict) else list(range(len(here)))
            key = draw(st.sampled_from(keys))
            if isinstance(here[key], dict | list) and here[key] and draw(st.booleans()):
                here = here[key]
                continue
            if draw(st.booleans()):
                here[key] = draw(JSON)
            else:
                del here[key]
            break
    return body


@st.composite
def deliveries(draw: st.DrawFn) -> tuple[HookSource, bytes]:
    source = draw(st.sampled_from(HOOK_SOURCES))
    kind = draw(st.integers(0, 9))
    if kind == 0:
        return source, draw(st.binary(max_size=200))
    if kind == 1:
        return source, json.dumps(draw(JSON)).encode()
    return source, json.dumps(draw(near_misses(source))).encode()


@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow])
@given(deliveries())
def test_a_reader_refuses_in_a_sentence_or_makes_an_alert_in_shape(
    sent: tuple[HookSource, bytes],
) -> None:
    source, raw = sent
    try:
        alert = READERS[source](read_object(raw), arrival())
    except BadDelivery as error:
        refusal: str | None = str(error)
    else:
        refusal = None
    if refusal is not None:
        assert refusal.isprintable()
        assert len(refusal) < 200
        return
    assert alert.key.isascii()
    assert alert.key.isprintable()
    assert 0 < len(alert.key) <= 200
    assert alert.group.isascii()
    assert alert.group.isprintable()
    assert len(alert.group) <= 200
    assert alert.title.isprintable()
    assert 0 < len(alert.title) <= 200
    assert len(canonical_json(alert.body)) <= MAX_BYTES
    if alert.window is not None:
        start, end = alert.window
        assert timedelta(0) < end - start <= MAX_WINDOW
        assert end <= NOW + CLOCK_SKEW
        assert start.utcoffset() == end.utcoffset() == timedelta(0)
    checked_request(request_of(alert))  # the graph takes it


@pytest.fixture(scope="module")
def hooks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hooks]:
    with pytest.MonkeyPatch.context() as patch:
        set_secrets(patch)
        with serve_hooks(make_home(tmp_path_factory.mktemp("hooks"))) as hooks:
            hooks.set_clock(NOW)
            yield hooks
            hooks.ledger().close()


@settings(max_examples=80, suppress_health_check=list(HealthCheck))
@given(deliveries())
def test_any_body_of_a_known_sender_leaves_one_row_at_most(
    hooks: Hooks, sent: tuple[HookSource, bytes]
) -> None:
    source, raw = sent
    before = sum(hooks.ledger().alerts.counts().values())
    answer = hooks.proven(source, raw)
    added = sum(hooks.ledger().alerts.counts().values()) - before
    assert answer.status_code in (202, 400, 422)
    assert added <= (answer.status_code == 202)


@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(HOOK_SOURCES), st.binary(max_size=200), st.text(max_size=60))
def test_any_proof_of_a_stranger_is_refused(
    hooks: Hooks, source: HookSource, raw: bytes, proof: str
) -> None:
    before = sum(hooks.ledger().alerts.counts().values())
    shown = proof.encode("ascii", "backslashreplace").decode().translate(dict.fromkeys(range(32)))
    names = (
        "authorization", "x-tracemend-secret", "x-tracemend-signature", "x-langsmith-signature",
        "x-langfuse-signature",
    )  # fmt: skip
    answer = hooks.post(source, raw, {name: shown.replace("\x7f", "").strip() for name in names})
    assert answer.status_code in (401, 429)
    assert sum(hooks.ledger().alerts.counts().values()) == before
