hdf5_version: str
version: str
