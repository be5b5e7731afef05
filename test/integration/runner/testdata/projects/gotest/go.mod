module example.org/tested

go 1.21
