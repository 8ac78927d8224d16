"""Interactive figures that need no kernel, one folder each: Python that gathers the data, JavaScript that draws it."""
