"""Still figures: lines, maps and grids as pictures with alt text."""
