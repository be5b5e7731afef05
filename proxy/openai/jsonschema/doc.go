// Package jsonschema checks the JSON schemas of requests: it refuses those that codex would refuse or change without
// notice, and rewrites the schema of an answer into the strict form that the model endpoint enforces.
package jsonschema
