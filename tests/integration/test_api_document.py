"""docs/api.md is true: its calls are the ones that exist, and its lines of shell work."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from graph.server.approvals import router
from tests.approval_worlds import installation, wait
from tests.serving_app import serve_app

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "api.md"


def test_every_call_for_people_is_documented_and_no_other() -> None:
    from fastapi.routing import APIRoute, iter_route_contexts

    served = set()
    for context in iter_route_contexts(router.routes):
        route = context.original_route
        assert isinstance(route, APIRoute)
        served |= {f"{method} {context.path}" for method in route.methods or ()}
    said = re.findall(r"^\| `((?:GET|POST) /[^`?]+)` \|", DOCUMENT.read_text("utf-8"), re.MULTILINE)
    assert set(said) == served | {"GET /openapi.json"}


@pytest.mark.skipif(
    not (shutil.which("curl") and shutil.which("jq")), reason="needs curl and jq on the PATH"
)
def test_the_lines_of_shell_lead_to_a_decision(tmp_path: Path) -> None:
    inbox = installation(tmp_path)
    made = wait(inbox)
    (script,) = re.findall(r"^```sh\n(.*?)^```", DOCUMENT.read_text("utf-8"), re.M | re.S)
    with serve_app(inbox.home) as served:
        ran = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            env={"PATH": "/usr/bin:/bin", "URL": served.url, "TOKEN": served.token("ann")},
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    (decision,) = inbox.decisions(made.id)
    assert (decision.by, decision.type, decision.proposal_hash) == ("ann", "approve", made.hash)
    assert f"{made.id} payment_api answers 504" in ran.stdout
