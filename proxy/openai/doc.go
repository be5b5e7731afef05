// Package openai holds the wire types of the OpenAI API that the proxy
// serves, their validation and their encoding. It is pure: it knows nothing of
// workers, threads or HTTP servers.
package openai
