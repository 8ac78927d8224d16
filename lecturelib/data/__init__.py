"""Data sets and the toy problems of the course, each named once with its licence, size and hash."""
