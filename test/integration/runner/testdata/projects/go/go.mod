module example.org/sum

go 1.21

require example.org/add v1.0.0

replace example.org/add => ./add
