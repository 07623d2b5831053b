"""The environment of a worker: little, what the operator named, and the marks of our own runs."""

from collections.abc import Mapping, Sequence

BASE = (
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "PYTHONPATH",
    "VIRTUAL_ENV", "TMPDIR", "TEMP", "TMP", "SYSTEMROOT", "SSL_CERT_FILE", "SSL_CERT_DIR",
)  # fmt: skip
"""What programs need to start; nothing here holds a secret."""

ENVIRONMENT = "tracemend-gate"
"""Sources leave out every trace recorded under this name: our own runs are never evidence."""


def worker_environment(
    operator: Mapping[str, str], *, names: Sequence[str], extra: Mapping[str, str], run_id: str
) -> dict[str, str]:
    """The whole environment of one worker process.

    Args:
        operator: the environment of this process.
        names: variables that the operator lets through; absent ones are left out.
        extra: variables that win over the operator's.
        run_id: of the process; also what finds its stray children.
    """
    known = {name: operator[name] for name in (*BASE, *names) if name in operator}
    env = known | dict(extra)
    marks = (
        f"deployment.environment={ENVIRONMENT},deployment.environment.name={ENVIRONMENT},"
        f"openinference.project.name={ENVIRONMENT},tracemend.run_id={run_id}"
    )
    theirs = env.get("OTEL_RESOURCE_ATTRIBUTES", "").rstrip(", ")
    return env | {
        "TRACEMEND_RUN_ID": run_id,
        "LANGFUSE_TRACING_ENVIRONMENT": ENVIRONMENT,
        "LANGSMITH_PROJECT": ENVIRONMENT,
        "PHOENIX_PROJECT_NAME": ENVIRONMENT,  # Phoenix keeps no resource attribute but this one
        # The last of two equal keys wins in OpenTelemetry: ours stand behind the operator's.
        "OTEL_RESOURCE_ATTRIBUTES": f"{theirs},{marks}" if theirs else marks,
    }
