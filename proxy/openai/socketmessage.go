package openai

// SocketMessage is what a message of a WebSocket is for.
type SocketMessage struct {
	Type       string `json:"type"`
	ResponseID string `json:"response_id"` // of a response.cancel
}

// DecodeMessage reads what a message is for. The rest of it may be wrong, but for
// names that are there twice. The error is an *Error with status 400.
func DecodeMessage(body []byte) (m SocketMessage, err error) {
	if unmarshal(tame(body), &m) != nil || !isObject(body) {
		return m, Invalid("invalid_json", "", "a message must be a JSON object with a type")
	}
	return m, checkNames(body)
}
