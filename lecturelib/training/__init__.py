"""One training loop for every model of the course."""
