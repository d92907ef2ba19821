hdf5_version: str
version: str
version_tuple: tuple[int, ...]
