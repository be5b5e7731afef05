// Package modelname holds the names that an operator gives to models. The settings define them and the server
// resolves them.
package modelname

// Alias is a model under another name, with an effort that is part of it.
type Alias struct {
	Model   string // as a worker lists it
	Effort  string // reasoning_effort; empty leaves it to the client
	Summary string // reasoning.summary for requests that name none; empty: as for other models
}
