"""The data sets, one file each: fetched ones, and generators of our own."""
