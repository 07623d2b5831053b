"""schemathesis over our own OpenAPI, against a real server with proposals that wait: no 5xx."""

import json
import subprocess
from pathlib import Path

import httpx
import pytest

from configs.server_settings import LimitSettings, ServerSettings
from memory.inbox import decisions_on
from tests.approval_worlds import installation, wait
from tests.integration.test_langfuse_fake_schemathesis import executable
from tests.serving_app import serve_app

CHECKS = (
    "not_a_server_error,status_code_conformance,content_type_conformance,"
    "response_schema_conformance,ignored_auth"
)
# 501 is how the Agent Protocol's routes say that they are not served here.
CONFIGURATION = """
[checks]
not_a_server_error.expected-statuses = ["2xx", "3xx", "4xx", "501"]

[parameters]
"path.proposal" = "p-refunds-0"
"path.release" = "r-1"
"path.thread" = "11111111-1111-4111-8111-111111111111"
"header.If-Match" = '"{hash}"'

[[operations]]
include-path-regex = "(ask|defer)$"
parameters = { "path.proposal" = "p-refunds-1" }
"""
OTHERS = ("- Ask twice.", "- Wait a while.")
OURS = "^/(proposals|releases|findings|incidents|audit)"


def explored(tmp_path: Path, which: list[str], checks: str, examples: int) -> tuple[str, bool]:
    inbox = installation(tmp_path / "world", "refunds", "billing")
    hashes = [
        wait(inbox, f"p-{project}-{number}", project=project, others=OTHERS).hash
        for project in ("refunds", "billing")
        for number in range(3)
    ]
    rates = dict.fromkeys(("per_token", "per_hook", "failed_auth"), "1000000/minute")
    settings = ServerSettings(limits=LimitSettings(**rates))  # type: ignore[arg-type]  # rates only
    (tmp_path / "schemathesis.toml").write_text(CONFIGURATION.replace("{hash}", hashes[0]), "utf-8")
    with serve_app(inbox.home, settings=settings) as served:
        headers = served.headers()
        document = httpx.get(f"{served.url}/openapi.json", headers=headers, timeout=60)
        (tmp_path / "openapi.json").write_text(json.dumps(document.json()), "utf-8")
        command = [
            str(executable()), "run", "openapi.json", "--url", served.url, "--seed", "1",
            "--max-examples", f"{examples}", "--checks", checks, "--no-color", *which,
            "--phases", "examples,coverage,fuzzing", "--suppress-health-check", "all",
            "--header", f"Authorization: {headers['Authorization']}",
        ]  # fmt: skip
        ran = subprocess.run(
            command, capture_output=True, text=True, cwd=tmp_path, timeout=500, check=False
        )
        with inbox.looking() as ledger:
            assert ledger.audit.verify().ok
            reached = bool(ledger.trail.of("p-refunds-1")) and decisions_on(
                ledger.db, "p-refunds-0"
            )
    assert ran.returncode == 0, ran.stdout[-6000:] + ran.stderr[-2000:]
    return ran.stdout, bool(reached)


@pytest.mark.servers
def test_the_api_for_people_answers_as_its_document_says(tmp_path: Path) -> None:
    said, reached = explored(tmp_path, ["--include-path-regex", OURS], CHECKS, 15)
    assert "Tested: 14" in said, said[-2000:]
    assert reached, "no call got as far as a row"


@pytest.mark.servers
def test_no_other_route_answers_with_an_error_of_the_server(tmp_path: Path) -> None:
    explored(tmp_path, ["--exclude-path-regex", OURS], "not_a_server_error", 8)
