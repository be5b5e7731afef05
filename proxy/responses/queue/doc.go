// Package queue has the background responses of this process in lanes: one response of a lane at a time waits for a
// worker, and all of them have bounds.
package queue
