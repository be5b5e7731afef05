module example.org/add

go 1.21
