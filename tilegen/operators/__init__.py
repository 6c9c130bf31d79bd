"""Kernels as operators of PyTorch: what an operator takes and makes, its kernels, its gradients, its registration.

torch is imported by ``registering`` alone, and there by ``torch_op`` alone.
"""
