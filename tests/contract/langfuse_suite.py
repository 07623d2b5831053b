"""What a place of versions and labels promises: all of a harness, but it remembers otherwise."""

from tests.contract.harness_suite import HarnessSuite, World, change, effect_of


class LangfuseSuite(HarnessSuite):
    """Versions stay for ever here, and moves of labels are told by nobody."""

    async def test_a_staged_change_that_is_discarded_leaves_no_trace(self, world: World) -> None:
        start = await world.harness.read()
        effect = await self._staged(world)
        found = await world.harness.read()
        assert (found, found.origin) == (world.before, start.origin)
        told = await world.harness.history()
        assert [entry for entry in told if entry.effect == effect]

    async def _staged(self, world: World) -> str:

        effect = effect_of(world.harness, world.before, world.after)
        await world.harness.stage(effect, world.before, world.after)
        for _ in range(2):
            await world.harness.discard(effect)
        return effect.key

    async def test_history_tells_our_changes_from_those_of_people(self, world: World) -> None:
        applied = await change(world.harness, world.before, world.after)
        world.put(min(world.after.files), b"by hand\n")
        told = await world.again().history()
        assert told[0].effect is None, "the newest is a person's"
        assert {entry.effect for entry in told} == {None, applied.key}
        assert all(entry.message for entry in told if entry.effect)
        assert len({entry.origin for entry in told}) == len(told)
        assert len(await world.harness.history(limit=1)) == 1
