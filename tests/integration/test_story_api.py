"""`GET /releases/{release}/story` over real sockets."""

from pathlib import Path

import httpx

from tests.approval_worlds import installation
from tests.attribution_worlds import desk
from tests.serving_app import serve_app


def test_a_story_is_told_to_its_own_project_alone(tmp_path: Path) -> None:
    world = desk(tmp_path)
    installation(tmp_path, "billing")
    release = world.release("one\nadded\n")
    world.ws.ledger.close()
    with serve_app(world.inbox.home) as server:

        def get(which: str, project: str) -> httpx.Response:
            headers = server.headers("ann", ("viewer",), [project])
            return httpx.get(f"{server.url}/releases/{which}/story", headers=headers, timeout=30)

        mine, theirs = get(release.id, "refunds"), get(release.id, "billing")
        nobodys = get("r-nobodys00", "billing")
        assert httpx.get(f"{server.url}/releases/{release.id}/story").status_code == 401
    assert mine.status_code == 200
    assert mine.json()["story"]["release"]["id"] == release.id
    assert mine.json()["markdown"].startswith(f"# {release.id}")
    assert theirs.status_code == nobodys.status_code == 404
    assert theirs.text == nobodys.text
