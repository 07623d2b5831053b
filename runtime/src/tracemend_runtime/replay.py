"""Tools that answer from a recording while Tracemend replays a run; elsewhere they are left alone.

    from tracemend_runtime.replay import replayed

    tools = ToolNode(replayed([get_order, refund]))

Whether this process is replayed is told by the environment variable TRACEMEND_REPLAY, which
Tracemend sets for the processes it starts. Without it `replayed` and `replayed_function` give back
what they were given. With it no tool is called unless Tracemend says so: it holds an address, or
`per-run` where the address comes with each run: `serve` sees to that, LangChain tools find it in
the metadata of a LangGraph run (`tracemend.replay`), any other server of yours says
`with replaying(address)` around the run. A tool that cannot tell its run is refused.
"""

import asyncio
import builtins
import functools
import http.client
import inspect
import json
import os
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, TypeVar, cast, overload
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool

VARIABLE = "TRACEMEND_REPLAY"
PER_RUN = "per-run"
TIMEOUT_S = 30.0
_NEAR = ("http://127.0.0.1:", "http+unix://")

Given = TypeVar("Given", bound=Callable[..., object])
Errors = Sequence[type[Exception]]

_ADDRESS: ContextVar[str | None] = ContextVar("_ADDRESS", default=None)


class ReplayMissing(RuntimeError):
    """Nothing was recorded of a call: the tool was not called, and the run counts as missing."""


class ReplayRefused(ReplayMissing):
    """The same for a tool that would have changed something, or that cannot tell its run."""


class RecordedError(Exception):
    """An error as it was recorded, of a type that is not known here.

    Attributes:
        type: the recorded name of the type; None where there was none.
    """

    def __init__(self, message: str, type: str | None = None) -> None:
        super().__init__(message)
        self.type = type


_BUILT_IN = tuple(
    kind for kind in vars(builtins).values()
    if isinstance(kind, type) and issubclass(kind, Exception)
)  # fmt: skip


class Call:
    """The tool is really to be called."""


CALL = Call()


@contextmanager
def replaying(address: str | None) -> Iterator[None]:
    """Tools called inside belong to the run with this address; None: to no replayed run."""
    token = _ADDRESS.set(address)
    try:
        yield
    finally:
        _ADDRESS.reset(token)


def active() -> bool:
    """Whether tools of this process are replayed."""
    return bool(os.environ.get(VARIABLE)) or _ADDRESS.get() is not None


def ask(tool: str, args: object, errors: Errors = (), *, address: object = None) -> str | Call:
    """The recorded result of a call, or `CALL`.

    Args:
        tool: its name, as in the traces.
        args: JSON values.
        errors: types that a recorded error may be raised as, beside the built-in ones.
        address: of the run, where its context holds none; one of another machine is not used.

    Raises:
        ReplayMissing: nothing was recorded; or the address cannot be reached.
        Exception: the error that was recorded.
    """
    told = address if isinstance(address, str) and address.startswith(_NEAR) else None
    address = _ADDRESS.get() or told or os.environ.get(VARIABLE)
    if not address or address == PER_RUN:
        raise ReplayRefused(f"{tool} was called outside of a run: its thread has no context of one")
    said = _post(str(address), json.dumps({"tool": tool, "args": args}, allow_nan=False))
    if "result" in said:
        return str(said["result"])
    if said.get("call") is True:
        return CALL
    error = said.get("error")
    if isinstance(error, Mapping):
        raise _error(error.get("type"), str(error.get("message", "")), errors)
    if "refused" in said:
        raise ReplayRefused(str(said["refused"]))
    raise ReplayMissing(str(said.get("missing", "the replay service gave no answer")))


@overload
def replayed_function(function: Given) -> Given: ...


@overload
def replayed_function(
    *,
    name: str | None = None,
    read: Callable[[str], object] | None = None,
    errors: Errors = (),
) -> Callable[[Given], Given]: ...


def replayed_function(
    function: Given | None = None,
    *,
    name: str | None = None,
    read: Callable[[str], object] | None = None,
    errors: Errors = (),
) -> Given | Callable[[Given], Given]:
    """Decorate a function that is a tool, sync or async, with or without arguments of its own.

    Args:
        function: the tool.
        name: the tool's name in the traces; None: the function's.
        read: makes the return value of the recorded text; None: the text itself where the function
            is annotated to return `str`, else the JSON it holds.
        errors: types that a recorded error may be raised as.
    """
    if function is None:
        return lambda given: _decorated(given, name, read, errors)
    return _decorated(function, name, read, errors)


def _decorated(
    function: Given, name: str | None, read: Callable[[str], object] | None, errors: Errors
) -> Given:
    if not active():
        return function
    tool = name or function.__name__
    signature = inspect.signature(function)
    known = (*errors, *errors_near(function))
    reads = read or (str if signature.return_annotation in (str, "str") else _json_or_text)

    def arguments(args: Sequence[object], kwargs: Mapping[str, object]) -> dict[str, object]:
        bound = signature.bind(*args, **kwargs)
        variable = next(
            (p.name for p in signature.parameters.values() if p.kind is p.VAR_KEYWORD), ""
        )
        rest = cast("dict[str, object]", bound.arguments.pop(variable, {}))
        return {k: v for k, v in (bound.arguments | rest).items() if k not in ("self", "cls")}

    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def waits(*args: object, **kwargs: object) -> object:
            said = await asyncio.to_thread(ask, tool, arguments(args, kwargs), known)
            return await function(*args, **kwargs) if isinstance(said, Call) else reads(said)

        return cast("Given", waits)

    @functools.wraps(function)
    def calls(*args: object, **kwargs: object) -> object:
        said = ask(tool, arguments(args, kwargs), known)
        return function(*args, **kwargs) if isinstance(said, Call) else reads(said)

    return cast("Given", calls)


def replayed(tools: Sequence["BaseTool"], *, errors: Errors = ()) -> list["BaseTool"]:
    """The same LangChain tools, for `bind_tools`, `ToolNode` and `create_agent`.

    A tool keeps its class, name, schema and callbacks, so that its spans are recorded as ever.
    `errors` are types that a recorded error may be raised as; those that the module of the tool's
    function knows are found without.
    """
    if not active():
        return list(tools)
    from tracemend_runtime.replay_langchain import replaying_tool  # noqa: PLC0415  LangChain is optional

    return [replaying_tool(tool, errors) for tool in tools]


def errors_near(function: object) -> tuple[type[Exception], ...]:
    """The exception types that the function's module has names for."""
    names = getattr(inspect.unwrap(function) if callable(function) else function, "__globals__", {})
    return tuple(v for v in names.values() if isinstance(v, type) and issubclass(v, Exception))


def _error(type_name: object, message: str, errors: Errors) -> Exception:
    """The recorded error under its own type where that is known; names come from no other place."""
    name = str(type_name).rpartition(".")[2] if type_name else ""
    for known in (*errors, *_BUILT_IN):
        if known.__name__ == name:
            try:
                return known(message)
            except Exception:  # noqa: BLE001  a type that is not made of a text alone
                break
    return RecordedError(message, str(type_name) if type_name else None)


def _json_or_text(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return text


class _FileConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket, which a process without a network reaches too."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=TIMEOUT_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(TIMEOUT_S)
        self.sock.connect(self._path)


def _post(address: str, body: str) -> Mapping[str, object]:
    """One call of the service, past any proxy of the environment."""
    parts = urlsplit(address)
    connection: http.client.HTTPConnection
    if parts.scheme == "http+unix":
        connection = _FileConnection(unquote(parts.netloc))
    else:
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=TIMEOUT_S)
    try:
        headers = {"Content-Type": "application/json"}
        connection.request("POST", f"{parts.path}/call", body.encode(), headers)
        answer = connection.getresponse()
        said = json.loads(answer.read())
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise ReplayMissing(f"the replay service cannot be reached: {error}") from None
    finally:
        connection.close()
    if not isinstance(said, dict) or answer.status != 200:
        raise ReplayMissing(f"the replay service answered {answer.status}")
    return said
