"""Still figures: lines, maps and grids as pictures with alt text, and numbers glued into prose."""
