"""What a reviewer sees: diff, card, and its skins. Every text here comes from outside."""
