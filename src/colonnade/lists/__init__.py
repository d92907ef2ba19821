"""List columns in queries: tests of their elements, and rows made of them."""
