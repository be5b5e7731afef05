package api

import (
	"net/http"

	"codex-proxy/proxy"
	"codex-proxy/proxy/openai"
)

// unserved are the paths of OpenAI's API that this endpoint does not serve, with the remedy for a client.
var unserved = []struct {
	path   string
	below  bool // all paths below it, too
	remedy string
}{
	{"/v1/embeddings", true, "codex has no models for embeddings; use a server of embeddings for them"},
	{"/v1/audio", true, "codex has no models for audio; use a server of speech models for it"},
	{"/v1/images", true,
		"codex makes no images; send images to a model in a message of a chat or in an item of a response"},
	{"/v1/files", true, "files are not kept; send their text or images in the request"},
	{"/v1/batches", true, "batches are not kept; send each request by itself"},
	{"/v1/moderations", true, "codex has no models for moderation; use a server of them"},
	{"/v1/assistants", true, threadsRemedy},
	{"/v1/threads", true, threadsRemedy},
	{"/v1/vector_stores", true,
		"codex has no models for embeddings; use a database of vectors with a server of embeddings"},
	{"/v1/uploads", true, "files are not kept; send their text or images in the request"},
	{"/v1/containers", true, "no code is run for the model; offer it a function that runs code where the client is"},
	{"/v1/fine_tuning", true, "codex trains no models; put examples into the instructions of the request"},
	{"/v1/evals", true, "nothing is evaluated here; run the evaluation where its data is, with requests to this endpoint"},
	{"/v1/realtime", true, "codex has no models for audio; use streamed responses, or the WebSocket of /v1/responses"},
	{"/v1/videos", true, "codex has no models for videos; use a server of such models for them"},
	{"/v1/chat/completions/{id}", false, storedChatsRemedy},
	{"/v1/chat/completions/{id}/messages", false, storedChatsRemedy},
}

const (
	threadsRemedy     = "threads of assistants are not kept; use /v1/conversations with /v1/responses"
	storedChatsRemedy = "chat completions are not stored; use /v1/responses, which are"
)

// unservedRoutes answer these paths, with any method. They need a key, as all paths of
// OpenAI's API do.
func unservedRoutes() (routes []proxy.Route) {
	for _, u := range unserved {
		handler := notSupported(u.path, u.remedy)
		routes = append(routes, proxy.Route{
			Method: proxy.AnyMethod, Path: u.path, Access: proxy.Keyed, Handler: handler,
		})
		if u.below {
			routes = append(routes, proxy.Route{
				Method: proxy.AnyMethod, Path: u.path + "/{path...}", Access: proxy.Keyed, Handler: handler,
			})
		}
	}
	return routes
}

func notSupported(path, remedy string) proxy.Handler {
	return func(http.ResponseWriter, *http.Request, *proxy.Exchange) error {
		return &openai.Error{
			Status: http.StatusNotFound, Type: openai.TypeInvalidRequest, Code: "not_supported",
			Message: path + " is not supported: this endpoint runs codex's language models, by " +
				"/v1/chat/completions, /v1/responses, /v1/completions and /v1/messages, and lists them at /v1/models; " + remedy,
		}
	}
}
