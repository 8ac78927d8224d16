"""Plots and kernel-free explorers, readable in light and dark."""
