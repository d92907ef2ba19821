FILTER_LZF: int
FILTER_NBIT: int
FILTER_SZIP: int
FLAG_OPTIONAL: int
SZIP_NN_OPTION_MASK: int
SO_FLOAT_DSCALE: int
SO_INT: int

def get_filter_info(filter_code: int) -> int: ...
def filter_avail(filter_code: int) -> bool: ...
