"""Decoding, metrics and cost accounting. Receives models; imports none."""
