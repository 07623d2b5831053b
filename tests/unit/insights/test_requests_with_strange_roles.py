"""The request of a run whose recorded messages are not what messages are."""

import json

import pytest

from contracts.json_types import Json
from nodes.insights.sketch import request_of
from tests.trace_worlds import root, trace_of


@pytest.mark.parametrize("strange", [[{"a": 1}, "x"], [["user"], "x"], {"role": {"a": 1}}, [[], 5]])
def test_a_role_that_is_no_text_is_no_person(strange: Json) -> None:
    messages: Json = [{"role": "user", "content": "refund A-1"}, strange]
    for recorded in (messages, {"messages": messages}):
        trace = trace_of(root(json.dumps(recorded)))
        assert request_of(trace) == {"message": "refund A-1"}
