"""Replayed tools over HTTP on loopback: what agents of any language ask, one random path a run."""

import json
import secrets
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import cast

from connectors.probe.loopback import Ask, Loopback, Reply
from connectors.probe.replay_recording import Replayed, Session
from contracts.json_types import Json

MAX_TOOL_CHARS = 512


class ReplayProxy(Loopback):
    """Answers `POST <address>/call` for the runs that are under way.

    The body is `{"tool": name, "args": {…}}`; the answer is one of `{"result": text}`,
    `{"error": {"type": name or null, "message": text}}`, `{"call": true}` (the tool may really be
    called), `{"refused": why}` and `{"missing": why}`. It is no forward proxy and calls nobody.
    """

    def __init__(self, *, as_file: bool = False) -> None:
        """Serve nothing yet; `as_file`: for agents without a network."""
        self._sessions: dict[str, tuple[Session, threading.Lock]] = {}
        super().__init__(self._serve, as_file=as_file)

    @contextmanager
    def open(self, session: Session) -> Iterator[str]:
        """The address of one run, good inside; the session is the caller's again afterwards."""
        token = secrets.token_urlsafe(24)
        lock = threading.Lock()
        self._sessions[token] = (session, lock)
        try:
            yield f"{self.url}/replay/{token}"
        finally:
            del self._sessions[token]
            with lock:  # a call that is being answered right now ends first
                pass

    def _serve(self, ask: Ask) -> Reply:
        root, _, rest = ask.path.removeprefix("/").partition("/")
        token, _, last = rest.partition("/")
        found = self._sessions.get(token) if root == "replay" else None
        if found is None:
            return _reply(404, {"error": "no such run; it may be over"})
        if last != "call" or ask.method != "POST":
            return _reply(404, {"error": "POST .../call with {tool, args}"})
        try:
            body = json.loads(ask.body)
        except (ValueError, RecursionError):
            return _reply(400, {"error": "the body is not JSON"})
        if not isinstance(body, dict) or not isinstance(body.get("tool"), str):
            return _reply(400, {"error": "the body needs `tool`, a text"})
        session, lock = found
        with lock:
            said = session.call(body["tool"][:MAX_TOOL_CHARS], cast("Json", body.get("args", {})))
        return _reply(200, _shown(said))


def _shown(said: Replayed) -> Mapping[str, Json]:
    if said.answer is None:
        return {"call": True} if said.kind == "through" else {said.kind: said.why}
    if said.answer.kind == "error":
        return {"error": {"type": said.answer.error_type, "message": said.answer.text}}
    return {"result": said.answer.text}


def _reply(status: int, value: Mapping[str, Json]) -> Reply:
    return Reply(status=status, body=json.dumps(value).encode())
