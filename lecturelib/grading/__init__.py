"""Checks for students, grading for instructors."""
