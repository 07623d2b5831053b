"""Speed, memory and error rates, measured as ratios within one run. Not part of the wheel."""
