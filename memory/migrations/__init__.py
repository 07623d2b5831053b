"""Steps from the tables of one release to those of the next, run by `memory.migrate`."""
