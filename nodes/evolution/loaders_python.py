"""What a Python file says of prompts, by its syntax tree; nothing of it is ever run. Pure."""

import ast
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from nodes.evolution.loaders_found import (
    HINT,
    MOST_OF_FILE,
    OPENING,
    CodeText,
    FoundInFile,
    PathNamed,
    PromptFetched,
    Vendor,
    long_enough,
    prompt_of_hub,
)

_JOINERS: Final = frozenset({"Path", "PurePath", "PosixPath", "PurePosixPath", "join", "joinpath"})
_SAME: Final = frozenset(
    {"resolve", "absolute", "expanduser", "as_posix", "strip", "str", "fspath"}
)
_SEARCHES: Final = frozenset({"glob", "rglob", "iglob"})
_OPENERS: Final = frozenset(
    {"open", "read_text", "read_bytes", "load_prompt", "get_template", "load_template", "read_file",
     "load", "from_file", "from_template_file", "listdir", "scandir", "iterdir", "files",
     "loadtxt"} | _SEARCHES
)  # fmt: skip
_TEXT_CALLS: Final = frozenset({"dedent", "cleandoc", "strip", "format", "lstrip", "rstrip",
                                "format_map", "replace", "from_template", "str"})  # fmt: skip
_FETCHES: Final[Mapping[str, Vendor]] = {
    "get_prompt": "langfuse", "get_prompt_async": "langfuse",
    "pull_prompt": "langsmith", "pull_prompt_commit": "langsmith",
}  # fmt: skip
_SYSTEM_ROLES: Final = ("system", "developer")
_EMPTY: Final = (ast.expr_context, ast.operator, ast.cmpop, ast.boolop, ast.unaryop)
_MOST_PARTS: Final = 400
_DEEPEST: Final = 60


def found_in_python(text: str) -> FoundInFile | str:
    """What the file says, or why it cannot be read as Python."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of escapes in somebody else's code
            tree = ast.parse(text)
        reader = _Reader()
        reader.read(tree)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return f"not read as Python: {type(error).__name__}"
    return FoundInFile(
        paths=tuple(reader.paths[:MOST_OF_FILE]), prompts=tuple(reader.prompts[:MOST_OF_FILE]),
        texts=tuple(reader.texts[:MOST_OF_FILE]),
    )  # fmt: skip


class _Reader:
    """Goes over one tree without recursion, so that no file is too deep."""

    def __init__(self) -> None:
        self.paths: list[PathNamed] = []
        self.prompts: list[PromptFetched] = []
        self.texts: list[CodeText] = []
        self._known: dict[str, str] = {}
        self._told: set[int] = set()

    def read(self, tree: ast.Module) -> None:
        for said in _statements(tree):
            if isinstance(said, ast.Assign | ast.AnnAssign) and said.value is not None:
                for name in _targets(said):
                    if (pattern := self._pattern(said.value)) is not None:
                        self._known.setdefault(name, pattern)
        stack: list[tuple[ast.AST, str]] = [(tree, "named")]
        while stack:
            node, how = stack.pop()
            self._instructions(node)
            if isinstance(node, ast.Call):
                self._fetch(node)
                called = _called(node)
                how = called if called in _OPENERS else how
            if isinstance(node, ast.stmt):
                how = "named"
            if isinstance(node, ast.expr) and (pattern := self._pattern(node)) is not None:
                self._name_path(node, pattern, how)
                inner = node.args if isinstance(node, ast.Call) else []
                stack.extend((one, how) for one in inner if self._pattern(one) is None)
                continue
            stack += [(child, how) for child in _children(node)]
        self.paths.sort(key=lambda one: (one.line, one.pattern))
        self.texts.sort(key=lambda one: (one.line, one.end_line))

    def _name_path(self, node: ast.expr, pattern: str, how: str) -> None:
        opener = _called(node) if isinstance(node, ast.Call) else ""
        plain = isinstance(node, ast.Constant)
        known = pattern.replace("*", "").strip("./")
        if not known or len(pattern) > 300 or any(c.isspace() for c in pattern):
            return
        if plain and how == "named" and "/" not in known and "." not in known:
            return  # a word, as any other
        if isinstance(node, ast.Name) and how == "named":
            return  # told where it is made
        how = opener if opener in _OPENERS else how
        if how == "named" and not plain:
            how = "path"
        self.paths.append(PathNamed(pattern=pattern, line=node.lineno, how=how))

    def _pattern(self, node: ast.AST, depth: int = 0) -> str | None:  # noqa: PLR0911 - by kind
        """A text with `*` for what is not known; None: nothing of it is known."""
        if depth > _DEEPEST:
            return None
        if isinstance(node, ast.Constant):
            return node.value if isinstance(node.value, str) and len(node.value) <= 300 else None
        if isinstance(node, ast.JoinedStr):
            parts = [p.value if isinstance(p, ast.Constant) else "*" for p in node.values]
            text = "".join(str(part) for part in parts)
            return text if text.strip("*") else None
        if isinstance(node, ast.Name):
            return self._known.get(node.id)
        if isinstance(node, ast.Attribute):
            return self._known.get(node.attr) if node.attr != "parent" else None
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div | ast.Add):
            left, right = (self._pattern(side, depth + 1) for side in (node.left, node.right))
            if right is None and left is None:
                return None
            if isinstance(node.op, ast.Div):
                return f"{left or '*'}/{right or '*'}"
            return f"{left or '*'}{right or '*'}"
        return self._called_pattern(node, depth) if isinstance(node, ast.Call) else None

    def _called_pattern(self, call: ast.Call, depth: int) -> str | None:
        name = _called(call)
        on = call.func.value if isinstance(call.func, ast.Attribute) else None
        base = self._pattern(on, depth + 1) if on is not None else None
        if name in _SAME or (name in _OPENERS - _SEARCHES and base is not None):
            if on is None and call.args:
                return self._pattern(call.args[0], depth + 1)
            return base
        if name in _SEARCHES | _JOINERS:
            said = [self._pattern(one, depth + 1) for one in call.args[:8]]
            if base is None and not any(said):
                return None
            between = "/**/" if name == "rglob" else "/"
            tail = "/".join(part or "*" for part in said)
            head = base or ("*" if on is not None and name != "join" else "")
            return f"{head}{between}{tail}" if head and tail else head or tail
        return None

    def _fetch(self, call: ast.Call) -> None:
        name = _called(call)
        hub = name == "pull" and isinstance(call.func, ast.Attribute) and (
            isinstance(call.func.value, ast.Name) and call.func.value.id == "hub"
        )  # fmt: skip
        if name not in _FETCHES and not hub:
            return
        named = [k.value for k in call.keywords if k.arg in ("name", "prompt_identifier")]
        said = self._pattern((call.args or named or [call])[0])
        if said is None or len(said) > 200 or "\n" in said:
            return
        vendor: Vendor = "langsmith" if hub else _FETCHES[name]
        held = prompt_of_hub(said) if vendor == "langsmith" else said
        how = "hub.pull" if hub else name
        self.prompts.append(PromptFetched(name=held, line=call.lineno, how=how, vendor=vendor))

    def _instructions(self, node: ast.AST) -> None:
        """Texts that this node names, passes or holds."""
        for name, value in _named_values(node):
            self._keep(name, value, instructs=True)
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            for name in _targets(node):
                self._keep(name, node.value, instructs=bool(HINT.search(name)))
        if isinstance(node, ast.JoinedStr | ast.Constant):
            self._keep("", node, instructs=False)

    def _keep(self, name: str, value: ast.expr, *, instructs: bool) -> None:
        if isinstance(value, ast.Dict | ast.List | ast.Tuple | ast.Set):
            if instructs:
                for one in _parts(value):
                    self._keep(name, one, instructs=True)
            return
        if id(value) in self._told:
            return
        text = _text(value)
        if text is None or not long_enough(text):
            return
        self._told |= {id(inner) for inner in ast.walk(value)}
        end = value.end_lineno or value.lineno
        opens = bool(OPENING.match(text))
        self.texts.append(
            CodeText(name=name[:80], line=value.lineno, end_line=end, text=text,
                     instructs=instructs or opens)
        )  # fmt: skip


def _children(node: ast.AST) -> list[ast.AST]:
    """What may hold a text; names, operators and contexts hold none."""
    found: list[ast.AST] = []
    for name in node._fields:
        value = getattr(node, name, None)
        if isinstance(value, list):
            found += [one for one in value if isinstance(one, ast.AST)]
        elif isinstance(value, ast.AST) and not isinstance(value, _EMPTY):
            found.append(value)
    return found


def _statements(tree: ast.Module) -> Iterator[ast.stmt]:
    """Every statement, however deep it stands; no expression is entered."""
    stack: list[ast.AST] = [*tree.body]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.stmt):
            yield node
        for name in ("body", "orelse", "finalbody", "handlers", "cases"):
            stack += getattr(node, name, None) or ()


def _called(call: ast.Call) -> str:
    func = call.func
    return func.attr if isinstance(func, ast.Attribute) else (
        func.id if isinstance(func, ast.Name) else ""
    )  # fmt: skip


def _targets(node: ast.Assign | ast.AnnAssign) -> Iterator[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    for target in targets:
        if isinstance(target, ast.Name):
            yield target.id
        elif isinstance(target, ast.Attribute):
            yield target.attr


def _named_values(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Values that stand where instructions go."""
    if isinstance(node, ast.Call):
        yield from ((k.arg, k.value) for k in node.keywords if k.arg and HINT.search(k.arg))
        called = _called(node)
        if called.startswith("System") and node.args:
            yield called, node.args[0]
        if called.startswith("System"):
            yield from ((called, k.value) for k in node.keywords if k.arg == "content")
    elif isinstance(node, ast.Dict):
        keys = [k.value if isinstance(k, ast.Constant) else None for k in node.keys]
        held = dict(zip(keys, node.values, strict=True))
        role = held.get("role")
        if isinstance(role, ast.Constant) and role.value in _SYSTEM_ROLES and "content" in held:
            yield "system message", held["content"]
        yield from (
            (key, value) for key, value in held.items() if isinstance(key, str) and HINT.search(key)
        )
    elif isinstance(node, ast.Tuple) and len(node.elts) == 2:
        first = node.elts[0]
        if isinstance(first, ast.Constant) and first.value in _SYSTEM_ROLES:
            yield "system message", node.elts[1]
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and HINT.search(node.name):
        returns = (one for one in ast.walk(node) if isinstance(one, ast.Return))
        yield from ((node.name, one.value) for one in returns if one.value is not None)


def _parts(value: ast.Dict | ast.List | ast.Tuple | ast.Set) -> Sequence[ast.expr]:
    return (value.values if isinstance(value, ast.Dict) else value.elts)[:_MOST_PARTS]


def _text(node: ast.AST | None, depth: int = 0) -> str | None:  # noqa: PLR0911 - by kind
    """The text that an expression gives, `{}` for its holes; None: it is none."""
    if depth > _DEEPEST or node is None:
        return None
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        parts = (p.value if isinstance(p, ast.Constant) else "{}" for p in node.values)
        return "".join(str(part) for part in parts)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Mod):
        left, right = _text(node.left, depth + 1), _text(node.right, depth + 1)
        if isinstance(node.op, ast.Mod):
            return left
        return None if left is None and right is None else f"{left or '{}'}{right or '{}'}"
    if not isinstance(node, ast.Call):
        return None
    name, on = _called(node), node.func
    if name == "join" and isinstance(on, ast.Attribute) and isinstance(on.value, ast.Constant):
        listed = node.args[0] if len(node.args) == 1 else None
        if not isinstance(listed, ast.List | ast.Tuple):
            return None
        between = on.value.value if isinstance(on.value.value, str) else " "
        return between.join(_text(one, depth + 1) or "{}" for one in listed.elts[:_MOST_PARTS])
    if name in _TEXT_CALLS:
        inner = on.value if isinstance(on, ast.Attribute) else None
        return _text(inner, depth + 1) or (_text(node.args[0], depth + 1) if node.args else None)
    return None
