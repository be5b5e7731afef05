// Package direct reads and writes sockets without involving Go's scheduler.
//
// Around each system call the scheduler prepares for a long one: after a moment of
// idleness it wakes up a thread of its own (sysmon in package runtime), which takes
// the processor away from a call of more than some 20 µs and gives it to another
// thread. The sockets of package net never wait in the kernel, so this work is
// useless for them. With few clients such moments lie between any two steps of a
// turn, and the work is a quarter of the CPU time of a turn.
package direct
