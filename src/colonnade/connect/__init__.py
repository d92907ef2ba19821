"""Objects of other packages made from files, and files from them; each package is imported when it is asked for."""
