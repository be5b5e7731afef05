package appserver

import "codex-proxy/codex/jsonscan"

// The messages of every turn are scanned without reflection: codex sends several times more members than are in use.

// identified is an object of which only the id is read.
type identified struct {
	ID string `json:"id"`
}

func (o *identified) ScanMember(name, value []byte) error {
	if string(name) == "id" {
		return jsonscan.ScanText(value, &o.ID)
	}
	return nil
}

func (r *threadStartResponse) ScanMember(name, value []byte) error {
	if string(name) == "thread" {
		return jsonscan.Scan(value, &r.Thread)
	}
	return nil
}

func (r *turnStartResponse) ScanMember(name, value []byte) error {
	if string(name) == "turn" {
		return jsonscan.Scan(value, &r.Turn)
	}
	return nil
}

func (p *summaryTextDeltaParams) ScanMember(name, value []byte) error {
	switch string(name) {
	case "itemId":
		return jsonscan.ScanText(value, &p.ItemID)
	case "delta":
		return jsonscan.ScanText(value, &p.Delta)
	case "summaryIndex":
		index := int64(0)
		err := jsonscan.ScanInt(value, &index)
		p.SummaryIndex = int(index)
		return err
	}
	return nil
}

func (p *itemCompletedParams) ScanMember(name, value []byte) error {
	if string(name) == "item" {
		return jsonscan.Scan(value, &p.Item)
	}
	return nil
}

func (i *threadItem) ScanMember(name, value []byte) error {
	switch string(name) {
	case "type":
		return jsonscan.ScanText(value, &i.Type)
	case "id":
		return jsonscan.ScanText(value, &i.ID)
	case "summary":
		return jsonscan.Unmarshal(value, &i.Summary)
	}
	return nil
}

func (p *rawResponseParams) ScanMember(name, value []byte) error {
	if string(name) == "usage" && string(value) != "null" {
		p.Usage = &Usage{}
		return jsonscan.Scan(value, p.Usage)
	}
	return nil
}

func (p *tokenUsageParams) ScanMember(name, value []byte) error {
	if string(name) == "tokenUsage" {
		return jsonscan.Scan(value, &p.TokenUsage)
	}
	return nil
}

func (u *tokenUsage) ScanMember(name, value []byte) error {
	if string(name) == "total" {
		return jsonscan.Scan(value, &u.Total)
	}
	return nil
}

// ScanMember implements jsonscan.Scanner.
func (u *Usage) ScanMember(name, value []byte) error {
	switch string(name) {
	case "inputTokens":
		return scanTokens(value, &u.InputTokens)
	case "cachedInputTokens":
		return scanTokens(value, &u.CachedInputTokens)
	case "outputTokens":
		return scanTokens(value, &u.OutputTokens)
	case "reasoningOutputTokens":
		return scanTokens(value, &u.ReasoningOutputTokens)
	case "totalTokens":
		return scanTokens(value, &u.TotalTokens)
	}
	return nil
}

func scanTokens(value []byte, into *int64) error {
	err := jsonscan.ScanInt(value, into)
	*into = inRange(*into)
	return err
}

func (p *turnCompletedParams) ScanMember(name, value []byte) error {
	if string(name) == "turn" {
		return jsonscan.Scan(value, &p.Turn)
	}
	return nil
}

func (t *turnObject) ScanMember(name, value []byte) error {
	switch string(name) {
	case "status":
		return jsonscan.ScanText(value, (*string)(&t.Status))
	case "error":
		return jsonscan.Unmarshal(value, &t.Error)
	}
	return nil
}
