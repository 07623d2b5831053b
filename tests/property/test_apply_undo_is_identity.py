"""Apply and undo of any edit give back exactly the bytes, modes and paths that were there."""

import asyncio
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.harness.directory import DirectoryHarness
from contracts.harness import Effect, EffectKind, HarnessFile, HarnessSnapshot, effect_key

PATHS = ("a.md", "skills/b.md", "skills/c/SKILL.md", "skills/c/x/y.md", "skills/ü ß.md")

files = st.builds(
    HarnessFile, data=st.binary(max_size=12), mode=st.sampled_from([0o600, 0o644, 0o755])
)
snapshots = st.builds(
    lambda found: HarnessSnapshot(files=found),
    st.dictionaries(st.sampled_from(PATHS), files, max_size=len(PATHS)),
)


async def change(
    harness: DirectoryHarness, kind: EffectKind, before: HarnessSnapshot, after: HarnessSnapshot
) -> None:
    effect = Effect(
        key=effect_key(kind, "h", "d", harness.target), kind=kind, project="p", proposal_hash="h",
        decision_id="d", target=harness.target, before=before.revision, after=after.revision,
    )  # fmt: skip
    await harness.stage(effect, before, after)
    await harness.switch(effect, before, after)
    await harness.discard(effect)


async def there_and_back(before: HarnessSnapshot, after: HarnessSnapshot) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "agent"
        root.mkdir()
        for path, file in before.files.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_bytes(file.data)
            (root / path).chmod(file.mode)
        harness = DirectoryHarness(root, ["*.md", "skills/**"], Path(folder) / "work")
        assert await harness.read() == before
        await change(harness, "apply", before, after)
        assert await harness.read() == after
        await change(harness, "undo", after, before)
        assert await harness.read() == before


@settings(max_examples=40, deadline=None)
@given(before=snapshots, after=snapshots)
def test_apply_then_undo_is_the_identity(before: HarnessSnapshot, after: HarnessSnapshot) -> None:
    asyncio.run(there_and_back(before, after))
