#!/bin/sh
# The pattern of the tests that call one of these functions of bed: `calling.sh Alone`.
cd "$(dirname "$0")" || exit
WANT=$(echo "$*" | tr ' ' '|') awk '
	/^func Test/ { name = $2; sub("[(].*", "", name) }
	$0 ~ "bed[.](" ENVIRON["WANT"] ")[(]t" { tests = tests "|" name }
	END { print "^(" substr(tests, 2) ")$" }' */*_test.go
