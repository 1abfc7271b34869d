"""What lies in a model directory, as its config.json and headers tell; reads no weights, needs no torch."""
