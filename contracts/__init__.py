"""What every part of Tracemend speaks: records, protocols, errors. Imports nothing of ours."""
