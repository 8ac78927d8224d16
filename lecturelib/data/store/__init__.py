"""Where data comes from and where it lies: the registry, the three ways to fetch, the folder they fill, the splits."""
