"""Datasets as a place for cases: Langfuse, LangSmith, and files of one item a line."""
