// Package wire holds the wire types of POST /v1/chat/completions, their validation and their encoding.
package wire
