// Package contract judges answers by OpenAI's API reference: every object by
// its JSON schema, unknown fields being errors, and every stream by the order
// of its events as well. Answers of the Messages API are judged by Anthropic's reference.
//
// openai.json is made by `make schema` from the TypeScript types of OpenAI's
// own library (npm: openai, Apache-2.0), which OpenAI generates from its
// OpenAPI document; generate/surface.ts lists the types, and its lock file has the
// version.
package contract
