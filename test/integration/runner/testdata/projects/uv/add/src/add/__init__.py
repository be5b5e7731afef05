def two(a, b):
    return a + b
