"""Who loads which prompt: what the syntax tree or the text of a source says."""

import textwrap
import warnings
from collections.abc import Iterable

import pytest

from connectors.repository.scanning import Scan, SourceFile, language_of
from nodes.evolution.loaders import PromptMap, fits, prompt_map
from nodes.evolution.loaders_found import FoundInFile
from nodes.evolution.loaders_python import found_in_python

HARNESS = ("instructions/main.md", "instructions/refund.md", "skills/pay/SKILL.md",
           "skills/pay/reference.md", "prompts/support/refund.md")  # fmt: skip
RULES = (
    "You are the refund clerk of a small shop. Ask for the number of the order first, then queue "
    "the refund and tell the customer when the money arrives."
)


def mapped(names: Iterable[str] = (), **sources: str) -> PromptMap:
    files = []
    for path, text in sources.items():
        language = language_of(path)
        assert language is not None
        files.append(SourceFile(path=path, language=language, text=textwrap.dedent(text)))
    seen = frozenset((*sources, *names))
    return prompt_map(Scan(files=tuple(files), names=seen, skipped=(), skipped_total=0), HARNESS)


def loaders(path: str, **sources: str) -> list[tuple[str, int, str, bool]]:
    found = mapped(**sources).loaders(path)
    return [(one.path, one.line, one.how, one.in_part) for one in found]


@pytest.mark.parametrize(
    ("code", "how", "in_part"),
    [
        ('open("instructions/main.md")', "open", False),
        ('open("./agent/instructions/main.md", encoding="utf-8")', "open", False),
        ('Path("instructions/main.md").read_text("utf-8")', "read_text", False),
        ('(ROOT / "instructions" / "main.md").read_text()', "read_text", False),
        (
            'Path(__file__).parent.joinpath("instructions", "main.md").read_bytes()',
            "read_bytes",
            False,
        ),
        ('open(os.path.join(HERE, "instructions", "main.md"))', "open", False),
        ('load_prompt("instructions/main.md")', "load_prompt", False),
        ('env.get_template("main.md")', "get_template", False),
        ('FILES = {"start": "instructions/main.md"}', "named", False),
        ('open(f"instructions/{name}.md")', "open", True),
        ('harness.glob("instructions/*.md")', "glob", True),
        ('(harness / "instructions").glob("*.md")', "glob", True),
        ('harness.rglob("*.md")', "", False),
        ('open(where + "/instructions/main.md")', "open", False),
    ],
)
def test_python_that_loads_a_file(code: str, how: str, *, in_part: bool) -> None:
    expected = [("app.py", 2, how, in_part)] if how else []
    assert loaders("instructions/main.md", **{"app.py": f"import os\nx = {code}\n"}) == expected


def test_a_constant_that_is_opened_further_down_is_followed() -> None:
    code = """
        FOLDER = Path(__file__).parent / "instructions"
        def start():
            return [file.read_text() for file in sorted(FOLDER.glob("*.md"))]
        """
    found = loaders("instructions/refund.md", **{"app.py": code})
    assert ("app.py", 4, "glob", True) in found


def test_all_of_a_skill_goes_along_with_its_head() -> None:
    found = mapped(**{"app.py": 'files = sorted(root.glob("skills/*/SKILL.md"))'})
    assert found.loaders("skills/pay/SKILL.md")
    assert "skills/pay/reference.md" not in found.not_loaded
    assert "instructions/main.md" in found.not_loaded


@pytest.mark.parametrize(
    ("pattern", "path", "fit"),
    [
        ("instructions/main.md", "instructions/main.md", True),
        ("/app/agent/instructions/main.md", "instructions/main.md", True),
        ("main.md", "instructions/main.md", True),
        ("other/main.md", "instructions/main.md", False),
        ("domain.md", "instructions/main.md", False),
        ("instructions/*.md", "instructions/main.md", None),
        ("*/instructions/**/*.md", "instructions/a/b.md", None),
        ("*/skills", "skills/pay/SKILL.md", None),
        ("*.md", "instructions/main.md", False),
        ("*/*", "instructions/main.md", False),
        ("**", "instructions/main.md", False),
        ("", "instructions/main.md", False),
        ("[!]", "instructions/main.md", False),
    ],
)
def test_a_path_of_code_fits_a_harness_path(pattern: str, path: str, *, fit: bool | None) -> None:
    assert fits(pattern, path) is fit


@pytest.mark.parametrize(
    ("path", "code", "name", "vendor"),
    [
        ("a.py", 'p = langfuse.get_prompt("support/refund", label="production")',
         "support/refund", "langfuse"),
        ("a.py", 'p = get_client().get_prompt(name="support/refund")', "support/refund",
         "langfuse"),
        ("a.py", 'p = client.pull_prompt("acme/refund:production")', "acme/refund", "langsmith"),
        ("a.py", 'p = hub.pull("-/refund")', "refund", "langsmith"),
        ("a.py", 'p = client.get_prompt(f"support/{kind}")', "support/*", "langfuse"),
        ("a.ts", 'const p = await langfuse.getPrompt("support/refund");', "support/refund",
         "langfuse"),
        ("a.ts", 'const p = await hub.pull("acme/refund");', "acme/refund", "langsmith"),
        ("a.ts", "const p = await langfuse.prompt.get('support/refund')", "support/refund",
         "unknown"),
    ],
)  # fmt: skip
def test_managed_prompts_that_code_fetches(path: str, code: str, name: str, vendor: str) -> None:
    (one,) = mapped(**{path: code}).managed
    assert (one.name, one.vendor, one.by[0].line) == (name, vendor, 1)


def test_a_fetched_prompt_of_the_harness_counts_as_loaded() -> None:
    found = mapped(**{"a.py": 'p = langfuse.get_prompt("support/refund")'})
    assert found.managed[0].path == "prompts/support/refund.md"
    assert "prompts/support/refund.md" not in found.not_loaded


@pytest.mark.parametrize(
    "code",
    [
        'const text = fs.readFileSync(path.join(root, "instructions/main.md"), "utf8");',
        "text = File.read('instructions/main.md')",
        'data, err := os.ReadFile("instructions/main.md")',
        "cat ./instructions/main.md",
        "instructions: instructions/main.md",
    ],
)
def test_other_languages_are_searched_as_text(code: str) -> None:
    (one,) = loaders("instructions/main.md", **{"app.ts": f"//\n{code}\n"})
    assert one[:2] == ("app.ts", 2)


@pytest.mark.parametrize(
    "code",
    [
        'SYSTEM_PROMPT = """{}"""',
        'agent = Agent(name="x", instructions="{}")',
        'messages = [{{"role": "system", "content": "{}"}}]',
        'messages = [("system", "{}")]',
        'first = SystemMessage(content="{}")',
        'first = SystemMessage("{}")',
        'PROMPTS = {{"refund": "{}"}}',
        'def system_text():\n    return "{}"',
        'text = "{}"',
        'PROMPT = textwrap.dedent("""{}""").strip()',
        'self.prompt = "Today is %s. " % today + "{}"',
    ],
)
def test_instructions_in_a_string_of_python(code: str) -> None:
    (one,) = mapped(**{"app.py": code.format(RULES)}).instructions_in_code
    assert RULES in one.text.text


def test_a_string_knows_its_first_and_last_line() -> None:
    (one,) = mapped(**{"app.py": f'import os\n\nPROMPT = """\n{RULES}\n{RULES}\n"""\n'}).texts
    assert (one.text.name, one.lines) == ("PROMPT", "3-6")


def test_parts_of_a_string_are_one_text_with_its_holes() -> None:
    code = f'PROMPT = (\n    f"Shop {{name}}. "\n    "{RULES}"\n)'
    (one,) = mapped(**{"app.py": code}).instructions_in_code
    assert one.text.text.startswith("Shop {}. You are")


def test_messages_for_people_are_no_instructions() -> None:
    code = f'raise ValueError("{"this went wrong and here is a long story about it " * 3}")'
    found = mapped(**{"app.py": code})
    assert len(found.texts) == 1
    assert found.instructions_in_code == ()


@pytest.mark.parametrize(
    ("path", "code", "lines"),
    [
        ("a.ts", f"const x = 1;\nconst systemPrompt = `{RULES}\n${{name}} is here.`;\n", "2-3"),
        ("a.ts", f'new Agent({{ instructions: "{RULES}" }})', "1"),
        ("a.go", f"var prompt = `{RULES}`", "1"),
        ("a.kt", f'val prompt = """\n{RULES}\n"""', "1-3"),
        ("a.yaml", f"refund:\n  backstory: >\n    {RULES}\n    More.\n  other: 1\n", "2-4"),
    ],
)
def test_instructions_in_other_languages(path: str, code: str, lines: str) -> None:
    (one,) = mapped(**{path: code}).instructions_in_code
    assert one.lines == lines


def test_prompt_files_that_are_opened_and_are_not_in_the_harness_are_told() -> None:
    found = mapped(
        ["app/templates/tone.txt", "README.md", "app/data.txt"],
        **{"app/a.py": 'a = open("templates/tone.txt")\nb = open("README.md")'},
    )
    assert [one.name for one in found.outside] == ["app/templates/tone.txt"]


@pytest.mark.parametrize(
    "code",
    [
        'x = open("instructions/main.md"',
        "x = " + "(" * 900 + 'open("instructions/main.md")',
        'print "instructions/main.md"',
    ],
)
def test_python_that_does_not_parse_is_searched_as_text_and_said(code: str) -> None:
    found = mapped(**{"old.py": code})
    assert [one.path for one in found.loaders("instructions/main.md")] == ["old.py"]
    assert found.skipped[0].startswith("old.py: not read as Python")


def test_deep_code_is_read_without_recursion() -> None:
    deep = 'P = "a' + '" + "a' * 900 + '"\nx = open("instructions/main.md")'
    found = found_in_python(deep)
    assert isinstance(found, FoundInFile)
    assert any(one.pattern == "instructions/main.md" for one in found.paths)


def test_a_bad_escape_in_code_of_others_warns_nobody() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert isinstance(found_in_python('x = "\\d prompt"'), FoundInFile)


def test_a_file_full_of_quotes_and_backticks_is_read_in_good_time() -> None:
    for text in (
        "'" * 300_000,
        "`" * 300_000,
        '"' * 300_000,
        "`a" * 100_000 + "\n" * 9,
        "\\" * 9_999,
    ):
        mapped(**{"a.ts": f"prompt {text}"})


def test_the_map_is_the_same_for_every_order_of_files() -> None:
    one, other = 'x = open("instructions/main.md")', 'y = open("instructions/main.md")'
    first = mapped(**{"a.py": one, "b.py": other})
    assert first.loaded == mapped(**{"b.py": other, "a.py": one}).loaded
