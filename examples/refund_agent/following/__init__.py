"""How the offline model reads its instructions and what it does about them."""
