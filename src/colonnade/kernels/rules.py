"""How fixed-length strings end, and which bytes are text: the numbers that kernels take."""

TERMINATED, NULLS, SPACES = 0, 1, 2
ANYTHING, ASCII, UTF8 = 0, 1, 2
