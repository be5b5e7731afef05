// Package direct reads and writes sockets without a word to Go's scheduler.
//
// Around each system call the scheduler prepares for one that takes long: after a
// moment of idleness it wakes up a thread of its own (sysmon in package runtime),
// which takes the processor away from a call of more than some 20 µs and gives it
// to another thread. The sockets of package net never wait in the kernel, so that
// is for nothing; and where clients are few, such moments lie between any two steps
// of a turn, and it was a quarter of what a turn cost.
package direct
