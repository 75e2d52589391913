"""What runs kernels."""
