package wire

import "codex-proxy/codex/jsonscan"

// Identified is an object of which only the id is read.
type Identified struct {
	ID string `json:"id"`
}

// ScanMember implements jsonscan.Scanner.
func (o *Identified) ScanMember(name, value []byte) error {
	if string(name) == "id" {
		return jsonscan.ScanText(value, &o.ID)
	}
	return nil
}

// ThreadStarted is the reply to thread/start.
type ThreadStarted struct {
	Thread Identified `json:"thread"`
}

// ScanMember implements jsonscan.Scanner.
func (r *ThreadStarted) ScanMember(name, value []byte) error {
	if string(name) == "thread" {
		return jsonscan.Scan(value, &r.Thread)
	}
	return nil
}

// TurnStarted is the reply to turn/start.
type TurnStarted struct {
	Turn Identified `json:"turn"`
}

// ScanMember implements jsonscan.Scanner.
func (r *TurnStarted) ScanMember(name, value []byte) error {
	if string(name) == "turn" {
		return jsonscan.Scan(value, &r.Turn)
	}
	return nil
}
