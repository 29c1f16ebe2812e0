"""Judging files (H14): groups out of JSON Lines, rewards, preference pairs and best answers back into them."""
