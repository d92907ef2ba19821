"""How fixed-length text ends, and which bytes are text: the numbers by which kernels are told."""

TERMINATED, NULLS, SPACES = 0, 1, 2
ANYTHING, ASCII, UTF8 = 0, 1, 2
