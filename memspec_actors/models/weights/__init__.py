"""From files into memory: what goes where and becomes what, the load, and the runner bound to it."""
