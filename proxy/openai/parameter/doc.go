// Package parameter has the parameters that several endpoints share: the model, the number of choices, reasoning,
// the service tier, verbosity and stop sequences.
package parameter
