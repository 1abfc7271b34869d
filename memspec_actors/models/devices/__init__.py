"""Where models run: processor, CUDA, MPS; their memory, their threads, and copies to them.

Each module imports only from the lines above its own:

    threads, heap                    how many threads compute, and which come first; freed memory given back
    transfer                         bytes from files into a device's memory
    device                           all that differs from device to device, and the host
    cuda, mps                        the other devices
    opening                          the device of a name
"""
