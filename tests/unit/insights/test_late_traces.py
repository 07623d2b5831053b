"""Who waits for traces that come late, and who does not."""

from typing import cast

from memory.workspace import Workspace
from nodes.insights.late import SCHEDULE, waits_until
from nodes.router import checked_request

NOTHING = cast("Workspace", None)
"""Neither of these asks the ledger for anything."""


def test_a_schedule_concludes_a_quiet_window_at_once() -> None:
    request = checked_request({"kind": "alert", "alert": {"source": SCHEDULE, "key": "nightly"}})
    assert waits_until(NOTHING, "t", request) is None


def test_a_person_who_asks_is_answered_at_once() -> None:
    assert waits_until(NOTHING, "t", checked_request({"kind": "improve"})) is None
