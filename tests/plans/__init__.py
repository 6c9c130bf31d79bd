"""Plans written by hand, to test what comes after the planning."""
