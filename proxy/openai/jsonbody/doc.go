// Package jsonbody reads JSON bodies of requests within bounds: one pass, no name twice, no list or object without
// an end. It has the tables' rules for parameters, and the types and ranges of those that have no effect.
package jsonbody
