"""What a person who waits reads: one line a quarter off a terminal."""

import pytest

from contracts.json_types import Json
from graph.cli.progress import Progress


def test_a_gates_line_says_time_money_and_what_is_open(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress(quiet=False) as shown:
        event: dict[str, Json] = {
            "step": "gate",
            "elapsed_s": 61.6,
            "spent_usd": 0.034,
            "open": ["L2", "K"],
        }
        shown.event({**event, "done": 90, "of": 178})
        shown.event({**event, "done": 92, "of": 178})
        unpriced: dict[str, Json] = {**event, "spent_usd": None, "open": []}
        shown.event({**unpriced, "done": 140, "of": 178})
        shown.event({"step": "precheck", "done": 1, "of": 50, "elapsed_s": 0.2})
    assert capsys.readouterr().err.splitlines() == [
        "   gate: 90/178, 62 s, $0.03, L2 K open",
        "   gate: 140/178, 62 s",
        "   precheck: 1/50, 0 s",
    ]
