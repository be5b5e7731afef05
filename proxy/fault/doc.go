// Package fault stops a named loop of a program that was built with the tag
// faultinject, so that a test can see the watchdog find it, or has it panic.
// Without the tag Point is empty and nothing of this is in the program.
package fault
