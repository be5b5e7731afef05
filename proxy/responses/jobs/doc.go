// Package jobs finds everything that requests for responses refer to: earlier responses, conversations, items and
// images.
package jobs
