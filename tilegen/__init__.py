"""tilegen: readable CUDA kernels from YAML specs of buffers, layouts and tile operations."""
