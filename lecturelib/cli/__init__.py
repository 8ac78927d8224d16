"""The `lecturelib` command."""
