"""From a finding to a draft: playbooks, exact edits, and the static policy they must pass."""
