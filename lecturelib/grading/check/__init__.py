"""What a student meets: the check cell of a notebook, and the same checks at a terminal."""
