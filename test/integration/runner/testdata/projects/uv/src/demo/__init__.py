import add


def total(numbers):
    result = 0
    for number in numbers:
        result = add.two(result, number)
    return result
