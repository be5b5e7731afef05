// Package wire holds the wire types of the Responses API: requests and their items, the response and its output.
package wire
