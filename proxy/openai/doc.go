// Package openai holds the wire types of the OpenAI API that the proxy serves, their validation and their encoding. It
// is pure: it knows nothing of workers, threads or HTTP servers.
//
// The names of the files group them: chat*.go is POST /v1/chat/completions, completion*.go is POST /v1/completions,
// response*.go is POST /v1/responses, body*.go reads the body of each, tool*.go, format.go, reasoning.go and image.go
// are parameters of chats and responses, stop.go of chats and completions.
package openai
