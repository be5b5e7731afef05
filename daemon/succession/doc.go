// Package succession connects the processes of a row of reloads while they run beside each
// other: the successor passes orders and changes on to its predecessor, and each of the two
// reports its load.
package succession
