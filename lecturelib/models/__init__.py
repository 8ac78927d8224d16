"""Architectures, one file each, built from `lecturelib.layers`."""
