"""Where models run: processor, CUDA, MPS; their memory, their threads, and copies to them."""
