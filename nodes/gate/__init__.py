"""The gate: is the edit really better, and does it harm nothing?"""
