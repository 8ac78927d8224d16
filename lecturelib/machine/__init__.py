"""What this computer offers: a folder for caches, and 16-bit products that work. Imports nothing heavy, torch least."""
