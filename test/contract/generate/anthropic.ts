// What of Anthropic's API codex-proxy serves, in the types that Anthropic generates from its OpenAPI document. Of types
// with variants that are never served (tools of Anthropic's servers and what they produce), only those that are served
// are taken, so that the others are errors.
import type Anthropic from "@anthropic-ai/sdk";

// The API leaves citations out where there are none, although the type has them as null: some clients refuse the null.
type ServedText = Omit<Anthropic.TextBlock, "citations">;

type Block = ServedText | Anthropic.ThinkingBlock | Anthropic.ToolUseBlock;

type ServedMessage = Omit<Anthropic.Message, "content"> & { content: Block[] };

type ServedDelta = Anthropic.TextDelta | Anthropic.ThinkingDelta | Anthropic.SignatureDelta | Anthropic.InputJSONDelta;

type ServedEvent =
  | { type: "ping" }
  | (Omit<Anthropic.RawMessageStartEvent, "message"> & { message: ServedMessage })
  | (Omit<Anthropic.RawContentBlockStartEvent, "content_block"> & { content_block: Block })
  | (Omit<Anthropic.RawContentBlockDeltaEvent, "delta"> & { delta: ServedDelta })
  | Anthropic.RawContentBlockStopEvent
  | Anthropic.RawMessageDeltaEvent
  | Anthropic.RawMessageStopEvent;

// Betas are members of requests that clients send before the library for everyone has them.
type Request = Anthropic.Beta.Messages.MessageCreateParams;

// The type lacks request_too_large, which the API reference has for 413, and details, which the libraries read.
type ServedError = Omit<Anthropic.ErrorResponse, "error"> & {
  error: (Anthropic.ErrorObject | { type: "request_too_large"; message: string }) & { details?: { error_code: string } };
};

// The names of what the bodies of requests may have, which a test compares with the table of codex-proxy. The library
// sends the others as headers.
type InBody<Params> = Exclude<keyof Params, "betas" | "user_profile_id" | "workspace_id">;

interface Names {
  messages: InBody<Anthropic.Beta.Messages.MessageCreateParams>;
  count: InBody<Anthropic.Beta.Messages.MessageCountTokensParams>;
}

export interface Wire {
  names: Names;
  message: ServedMessage;
  event: ServedEvent;
  request: Request;
  count: Anthropic.MessageTokensCount;
  model: Anthropic.ModelInfo;
  models: { data: Anthropic.ModelInfo[]; has_more: boolean; first_id: string | null; last_id: string | null };
  error: ServedError;
}
