"""The fake Langfuse answers as the vendor's OpenAPI document says, for what it serves of it."""

import base64
import os
import subprocess
from pathlib import Path

import pytest

from tests.fakes.langfuse import PUBLIC, SECRET, FakeLangfuse
from tests.fakes.serving import serve
from tests.integration.test_langfuse_fake_is_like_the_server import recorded
from tests.trace_worlds import REPO, shared

# The document says nothing of limits on numbers, lists of names or combinations of parameters,
# which the real server refuses, so that refusing a valid value is no failure here.
CHECKS = (
    "not_a_server_error,status_code_conformance,content_type_conformance,"
    "response_schema_conformance,ignored_auth"
)
OPERATIONS = (
    "health_health", "projects_get", "observations_getMany", "scoresV3_getManyV3", "trace_list",
    "trace_get", "legacy_observationsV1_getMany",
)  # fmt: skip


def executable() -> Path:
    path = Path(os.environ.get("TRACEMEND_ST", str(REPO / ".venv-tools" / "bin" / "st")))
    if not path.exists():
        pytest.skip(f"no schemathesis at {path}; set TRACEMEND_ST (.ci/tools.txt has the pin)")
    return path


@pytest.mark.servers
def test_the_fake_conforms_to_the_vendors_document(tmp_path: Path) -> None:
    document = shared("specs", "langfuse", "api.openapi.yml")
    tool = str(executable())
    token = base64.b64encode(f"{PUBLIC}:{SECRET}".encode()).decode()
    with serve(FakeLangfuse(map(recorded, range(3)), generation="both").app) as url:
        command = [
            tool, "run", str(document), "--url", url, "--max-examples", "10", "--seed", "1",
            "--checks", CHECKS, "--phases", "coverage,fuzzing", "--no-color",
            "--header", f"Authorization: Basic {token}",
        ]  # fmt: skip
        for name in OPERATIONS:
            command += ["--include-operation-id", name]
        ran = subprocess.run(
            command, capture_output=True, text=True, cwd=tmp_path, timeout=120, check=False
        )
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-1000:]
    assert f"Tested: {len(OPERATIONS)}" in ran.stdout
