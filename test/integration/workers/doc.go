// Package workers tests the workers as units: their starts, their crashes, their homes and what they can reach.
package workers
