"""One loopback server that stands in for Langfuse and LangSmith, under a random path a lane."""

import secrets
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from connectors.probe.loopback import Ask, Loopback, Reply
from connectors.probe.prompts_answers import Answered
from connectors.probe.prompts_langfuse import ROOT, answer_langfuse
from connectors.probe.prompts_langsmith import answer_langsmith
from connectors.probe.prompts_spans import BadSpansError, SpansKept
from connectors.probe.prompts_store import PromptFiles


class PromptRun:
    """What one run read, sent and wanted to write."""

    def __init__(self) -> None:
        self.spans = SpansKept()
        self.problem: str | None = None
        """Why the run is not what production would see; the first one."""
        self.refused: Counter[str] = Counter()
        """Writes that were refused, such as `POST /commits`."""


class PromptLane:
    """One base URL. It serves one harness only, one run at a time."""

    def __init__(self, files: PromptFiles) -> None:
        self._files = files
        self._run: PromptRun | None = None
        self._lock = threading.Lock()

    @contextmanager
    def during(self, run: PromptRun) -> Iterator[None]:
        """Requests that come inside belong to this run."""
        with self._lock:
            self._run = run
        try:
            yield
        finally:
            with self._lock:
                self._run = None

    def answer(self, path: str, ask: Ask) -> Reply:
        """One request; `path` begins behind the base URL. Between runs spans are dropped."""
        with self._lock:
            run = self._run or PromptRun()
        try:
            if run.spans.take(path, ask):
                return Answered.of(200, {}).reply
        except BadSpansError as error:
            return Answered.of(400, {"error": str(error)}).reply
        if path.startswith(ROOT):
            said = answer_langfuse(path.removeprefix(ROOT), ask, self._files)
        else:
            said = answer_langsmith(path, ask, self._files)
        if said.problem is not None and run.problem is None:
            run.problem = said.problem
        if said.refused is not None:
            run.refused[said.refused] += 1
        return said.reply


class PromptProxy(Loopback):
    """Answers prompt reads from the harness of a lane. It calls nobody and writes nothing."""

    def __init__(self) -> None:
        self._lanes: dict[str, PromptLane] = {}
        super().__init__(self._serve)

    def add(self, lane: PromptLane) -> str:
        """The base URL of a new lane."""
        token = secrets.token_urlsafe(24)
        self._lanes[token] = lane
        return f"{self.url}/prompts/{token}"

    def _serve(self, ask: Ask) -> Reply:
        root, _, rest = ask.path.removeprefix("/").partition("/")
        token, slash, path = rest.partition("/")
        lane = self._lanes.get(token) if root == "prompts" else None
        if lane is None:
            return Answered.of(404, {"error": "no such base URL"}).reply
        return lane.answer(f"{slash}{path}", ask)
