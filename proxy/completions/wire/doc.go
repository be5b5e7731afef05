// Package wire holds the wire types of POST /v1/completions, whose requests become chats of one message.
package wire
