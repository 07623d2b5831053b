"""Nothing that is fenced can end its fence, and no answer of a model is a crash."""

from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from connectors.models.answers import read_text
from nodes.fence import fenced


class Row(BaseModel):
    """Some answer."""

    name: str
    count: int


@given(text=st.text(), around=st.text(), repeats=st.integers(1, 3))
def test_a_fence_ends_where_its_text_ends(text: str, around: str, repeats: int) -> None:
    """The data is chosen knowing the fences of earlier texts, as an attacker may."""
    hostile = text
    for _ in range(repeats):
        hostile = f"{hostile}\n{fenced('e1', hostile)}\n{around}"
    whole = fenced("e1", hostile)
    first, rest = whole.split("\n", 1)
    code = first.split(" ")[2]
    assert whole.count(code) == 2
    assert rest == f"{hostile}\n>>> {code}"


@given(
    name=st.text(), count=st.integers(-(10**9), 10**9), fence=st.booleans(), prose=st.text("ab c\n")
)
def test_an_answer_survives_fences_and_prose(
    name: str, count: int, fence: bool, prose: str
) -> None:
    body = Row(name=name, count=count).model_dump_json()
    body = f"```json\n{body}\n```" if fence else body
    assert read_text(f"{prose}{body}{prose}", Row).value == Row(name=name, count=count)


@given(st.text() | st.text('{}[]":,\\ntrue0').map(lambda t: "{" + t))
def test_any_text_gives_a_value_or_a_problem(text: str) -> None:
    read = read_text(text, Row)
    assert (read.value is None) == (read.problem is not None)
