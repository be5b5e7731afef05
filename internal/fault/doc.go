// Package fault stops a named loop of a program that was built with the tag
// faultinject, or makes it panic, so that a test can prove that the watchdog notices.
// Without the tag Point is empty and the program has no such code.
package fault
