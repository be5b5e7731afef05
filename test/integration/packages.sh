#!/bin/sh
# The packages that have the tests of a pattern of `go test -run`, as linking each takes seconds.
cd "$(dirname "$0")/../.." || exit
found=$(RUN=$1 awk '
	BEGIN { want = ENVIRON["RUN"]; gsub("/[(][^)]*[)]", "", want); gsub("/[^|)]*", "", want) }
	/^func Test/ {
		name = $2; sub("[(].*", "", name)
		dir = FILENAME; sub("/[^/]*$", "", dir)
		if (name ~ want && !seen[dir]++) print "./" dir
	}' test/integration/*_test.go test/integration/*/*_test.go) || exit
test -n "$found" || { echo "no test in test/integration matches $1" >&2; exit 1; }
echo "$found"
