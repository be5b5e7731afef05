// What of OpenAI's API codex-proxy serves, in the types that OpenAI generates
// from its OpenAPI document. Where a type has variants that are never served
// (hosted tools and what they produce), only those that are served are taken,
// so that the others are errors.
import type OpenAI from "openai";

// reasoning_content is no field of OpenAI's: it is how other providers stream a
// model's reasoning in a chat completion.
type WithReasoning = { reasoning_content?: string };

type ServedCompletion = Omit<OpenAI.Chat.ChatCompletion, "choices"> & {
  choices: (Omit<OpenAI.Chat.ChatCompletion.Choice, "message"> & { message: OpenAI.Chat.ChatCompletionMessage & WithReasoning })[];
};
type ServedChunk = Omit<OpenAI.Chat.ChatCompletionChunk, "choices"> & {
  choices: (Omit<OpenAI.Chat.ChatCompletionChunk.Choice, "delta"> & { delta: OpenAI.Chat.ChatCompletionChunk.Choice.Delta & WithReasoning })[];
};

type Item =
  | OpenAI.Responses.ResponseOutputMessage
  | OpenAI.Responses.ResponseFunctionToolCall
  | OpenAI.Responses.ResponseReasoningItem
  | OpenAI.Responses.ResponseCompactionItem;

// context_length_exceeded and insufficient_quota are no codes of the document's for a response: the codex
// CLI recognises by them, in response.failed, that the conversation is too long, or a limit used up.
type ServedResponseError = Omit<OpenAI.Responses.ResponseError, "code"> & { code: OpenAI.Responses.ResponseError["code"] | "context_length_exceeded" | "insufficient_quota" };

// output_text is added by the library. OpenAI's answers have store, and user as null, though the types have neither.
type ServedResponse = Omit<OpenAI.Responses.Response, "output_text" | "output" | "tools" | "tool_choice" | "instructions" | "prompt" | "model" | "error" | "user"> & {
  error: ServedResponseError | null;
  store: boolean;
  user: string | null;
  output: Item[];
  tools: OpenAI.Responses.FunctionTool[];
  tool_choice: OpenAI.Responses.ToolChoiceOptions | OpenAI.Responses.ToolChoiceFunction | OpenAI.Responses.ToolChoiceAllowed;
  instructions: string | null;
  model: string;
};

// OpenAI's libraries look for the error in a member of that name, which the document lacks.
type ServedErrorEvent = OpenAI.Responses.ResponseErrorEvent & { error: OpenAI.ErrorObject & { retryable?: true } };

type OfResponse<E> = Omit<E, "response"> & { response: ServedResponse };
type OfItem<E> = Omit<E, "item"> & { item: Item };

type ServedEvent =
  | OfResponse<OpenAI.Responses.ResponseCreatedEvent>
  | OfResponse<OpenAI.Responses.ResponseInProgressEvent>
  | OfResponse<OpenAI.Responses.ResponseCompletedEvent>
  | OfResponse<OpenAI.Responses.ResponseIncompleteEvent>
  | OfResponse<OpenAI.Responses.ResponseFailedEvent>
  | ServedErrorEvent
  | OfItem<OpenAI.Responses.ResponseOutputItemAddedEvent>
  | OfItem<OpenAI.Responses.ResponseOutputItemDoneEvent>
  | OpenAI.Responses.ResponseContentPartAddedEvent
  | OpenAI.Responses.ResponseContentPartDoneEvent
  | OpenAI.Responses.ResponseTextDeltaEvent
  | OpenAI.Responses.ResponseTextDoneEvent
  | OpenAI.Responses.ResponseRefusalDeltaEvent
  | OpenAI.Responses.ResponseRefusalDoneEvent
  | OpenAI.Responses.ResponseFunctionCallArgumentsDeltaEvent
  | OpenAI.Responses.ResponseFunctionCallArgumentsDoneEvent
  | OpenAI.Responses.ResponseReasoningSummaryPartAddedEvent
  | OpenAI.Responses.ResponseReasoningSummaryPartDoneEvent
  | OpenAI.Responses.ResponseReasoningSummaryTextDeltaEvent
  | OpenAI.Responses.ResponseReasoningSummaryTextDoneEvent;

// The document has one type for a whole text completion and for a chunk of one. In a
// chunk before the last one finish_reason is null, and usage as in chunks of a chat.
type ServedTextChunk = Omit<OpenAI.Completion, "choices" | "usage"> & {
  choices: (Omit<OpenAI.CompletionChoice, "finish_reason"> & { finish_reason: OpenAI.CompletionChoice["finish_reason"] | null })[];
  usage?: OpenAI.CompletionUsage | null;
};

// The output of a compaction has the user's messages and one item, as the document says in words.
type ServedCompaction = Omit<OpenAI.Responses.CompactedResponse, "output"> & {
  output: (OpenAI.Responses.ResponseInputMessageItem | OpenAI.Responses.ResponseCompactionItem)[];
};

// The items that a conversation has here, as they are listed: from the input of a response, or its output. The document
// has no status of custom calls in a conversation, as it has in the input of a response.
type ServedConversationItem =
  | Item
  | (Omit<OpenAI.Conversations.Message, "content" | "role"> & {
      role: "user" | "assistant" | "system" | "developer";
      content: (OpenAI.Responses.ResponseInputText | OpenAI.Responses.ResponseInputImage | OpenAI.Responses.ResponseOutputText | OpenAI.Responses.ResponseOutputRefusal)[];
    })
  | OpenAI.Responses.ResponseFunctionToolCallItem
  | OpenAI.Responses.ResponseFunctionToolCallOutputItem
  | OpenAI.Responses.ResponseCustomToolCallItem
  | OpenAI.Responses.ResponseCustomToolCallOutputItem
  | OpenAI.Responses.ResponseToolSearchCall
  | OpenAI.Responses.ResponseToolSearchOutputItem;

// An empty list has no first item.
type ServedConversationItems = Omit<OpenAI.Conversations.ConversationItemList, "data" | "first_id" | "last_id"> & {
  data: ServedConversationItem[];
  first_id: string | null;
  last_id: string | null;
};

type TypeOf<Item> = Item extends { type?: infer Type } ? Type : never;

// The names of what requests may have, which a test compares with the tables of codex-proxy.
interface Names {
  chat: keyof OpenAI.Chat.ChatCompletionCreateParams;
  completions: keyof OpenAI.Completions.CompletionCreateParams;
  responses: keyof OpenAI.Responses.ResponseCreateParams;
  socket: keyof OpenAI.Responses.ResponsesClientEvent.ResponseCreate;
  inputTokens: keyof OpenAI.Responses.InputTokenCountParams;
  compact: keyof OpenAI.Responses.ResponseCompactParams;
  conversation: keyof OpenAI.Conversations.ConversationCreateParams;
  conversationUpdate: keyof OpenAI.Conversations.ConversationUpdateParams;
  conversationItems: Exclude<keyof OpenAI.Conversations.ItemCreateParams, "include">; // that one is in the query
  reasoning: keyof OpenAI.Reasoning;
  items: TypeOf<OpenAI.Responses.ResponseInputItem>;
}

export interface Wire {
  names: Names;
  completion: ServedCompletion;
  chunk: ServedChunk;
  text: OpenAI.Completion;
  textchunk: ServedTextChunk;
  response: ServedResponse;
  event: ServedEvent;
  inputTokens: OpenAI.Responses.InputTokenCountResponse;
  compaction: ServedCompaction;
  conversation: Omit<OpenAI.Conversations.Conversation, "metadata"> & { metadata: Record<string, string> };
  conversationdeleted: OpenAI.Conversations.ConversationDeletedResource;
  conversationitem: ServedConversationItem;
  conversationitems: ServedConversationItems;
  model: OpenAI.Model;
  error: { error: OpenAI.ErrorObject & { retryable?: true } };
}
