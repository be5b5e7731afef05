// Package clienttool has the tools that clients offer, and run themselves: their forms for codex and the model,
// their names, and the choice among them.
package clienttool
