"""Ready to train: which model learns what from which data, how large and how fast. `lecturelib train` follows these."""
