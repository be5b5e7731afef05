package openai

// SocketMessage is the purpose of a message on a WebSocket.
type SocketMessage struct {
	Type       string `json:"type"`
	ResponseID string `json:"response_id"` // of a response.cancel
}

// DecodeMessage reads the purpose of a message. Of the rest it only refuses duplicate names. The error is an *Error
// with status 400.
func DecodeMessage(body []byte) (m SocketMessage, err error) {
	if unmarshal(validUTF8(body), &m) != nil || !isObject(body) {
		return m, Invalid("invalid_json", "", "a message must be a JSON object with a type")
	}
	return m, checkDuplicateNames(body)
}
