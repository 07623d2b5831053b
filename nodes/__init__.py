"""One module or folder per node: decisions in pure files, effects in thin ones."""
