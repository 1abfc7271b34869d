"""Products of rows with a weight, whatever it is made of: floats, or codes of 8 or 4 bits."""
