"""Deliveries of alert senders: prove who sent them, read them, keep what is worth keeping."""
