"""What is tested and how it is judged: exercises, tests, mistakes with hints, comparison, results."""
