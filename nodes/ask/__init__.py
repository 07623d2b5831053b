"""Questions about what fails, answered from the same counts as everything else."""
