"""Which sizes of weights torch's kernels for codes take; needs no torch."""

__all__ = ["INT4_GROUPS", "INT8_COLUMNS", "int4_group"]

INT4_GROUPS = (256, 128, 64, 32)  # inputs per scale that the int4 kernel knows
INT4_ROWS = 16  # the int4 kernel takes a multiple of so many outputs
INT8_COLUMNS = 16  # the int8 kernel reads so many inputs at once, even past the end


def int4_group(rows: int, columns: int, group_size: int) -> int | None:
    """Return the widest of the int4 kernel's groups that ``group_size`` inputs (-1: all) are made of, or None."""
    size = columns if group_size < 0 or group_size >= columns else group_size
    if rows % INT4_ROWS:
        return None
    return next((group for group in INT4_GROUPS if size % group == 0 and columns % group == 0), None)
