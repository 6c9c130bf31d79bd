"""Kernels timed beside what a user would call instead: one process, one stream, the same buffers, in turns."""
