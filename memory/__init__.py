"""What outlives a run: the ledger, artifacts, cases, budgets."""
