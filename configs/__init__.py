"""Settings, taxonomy, playbooks and redaction rules: everything an operator can change."""
