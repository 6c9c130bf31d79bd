"""What a plan's accesses cost: found, put into classes that behave alike, and counted exactly."""
