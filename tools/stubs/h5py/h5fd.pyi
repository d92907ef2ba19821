LOG: int
SEC2: int
STDIO: int
fileobj_driver: int
