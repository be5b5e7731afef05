// Package openai holds the parts of OpenAI's wire that all endpoints share: errors, usage, models, server-sent events.
// It is pure: it knows nothing of workers, threads or HTTP servers.
//
// The packages below it read requests: jsonbody the body of each, jsonschema, clienttool, media and parameter
// the parts that several endpoints have in it. The wire types of one endpoint are in its package wire, such as
// proxy/chat/wire.
package openai
