"""From solutions to what students get."""
