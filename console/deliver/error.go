package deliver

// The reasons why a message was not delivered.
const (
	Gone        = "gone"        // no message goes to this browser any more
	Address     = "address"     // not https, or not on the public network
	Refused     = "refused"     // by the push service
	Unavailable = "unavailable" // for now
	Busy        = "busy"        // this host
)

// Error is why a message was not delivered.
type Error struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Error is the message.
func (e *Error) Error() string { return e.Message }

// Passing reports that the same message may be delivered later.
func (e *Error) Passing() bool { return e.Code == Unavailable || e.Code == Busy }
