"""Why a server of other people cannot be started here."""

from tests.postgres import postgres_programs
from tests.services import AEGRA_PYTHON, missing_redis


def aegra_absent() -> str | None:
    """What Aegra needs and is not here; None: it can be started."""
    if not AEGRA_PYTHON.exists():
        return ".venv-aegra is not there (`.ci/run 2` makes it where Python 3.12 is found)"
    return postgres_absent() or missing_redis()


def postgres_absent() -> str | None:
    """Why no PostgreSQL can be started; None: it can."""
    return None if postgres_programs() is not None else "PostgreSQL is not installed"
