"""A refund and order agent with an offline model and a back office that misbehaves on purpose."""
