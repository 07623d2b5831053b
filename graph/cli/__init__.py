"""`tracemend …`: the way in from a terminal."""
