"""The engine in virtual time: its own actors, on models that are played from traces, at a device's pace."""
