FILTER_NBIT: int
FLAG_OPTIONAL: int
SO_FLOAT_DSCALE: int
SO_INT: int

def filter_avail(filter_code: int) -> bool: ...
