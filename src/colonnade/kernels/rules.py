"""How fixed-length text ends, and which bytes are text: as the numbers that kernels take."""

TERMINATED, NULLS, SPACES = 0, 1, 2
ANYTHING, ASCII, UTF8 = 0, 1, 2
