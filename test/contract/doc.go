// Package contract judges answers by OpenAI's API reference: every object by
// its JSON schema, unknown fields being errors, and every stream by the order
// of its events as well. Answers of the Messages API are judged by Anthropic's reference.
//
// openai.json and anthropic.json are made by `make schema` from the TypeScript types of the
// APIs' own libraries (npm: openai and @anthropic-ai/sdk, both Apache-2.0), which are generated
// from their OpenAPI documents; generate/surface.ts and generate/anthropic.ts list the types, and
// the lock file has the versions.
package contract
