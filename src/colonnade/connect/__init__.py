"""Converts between files and objects of other packages; each package is imported only when it is needed."""
