// Package limits tests what a kernel enforces, in emulated machines: limits of memory, tasks and time, and a clock that is set.
package limits
