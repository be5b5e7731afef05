package appserver

import "strconv"

// scanned is what is read without reflection: the answers and notifications of
// every turn, of which codex sends several times more than we want to know.
type scanned interface {
	// scan takes one member of the object.
	scan(name, value []byte) error
}

// scanInto reads an object, or null.
func scanInto(data []byte, into scanned) error {
	if string(data) == "null" {
		return nil
	}
	members := openObject(data)
	for name, value, ok := members.next(); ok; name, value, ok = members.next() {
		if err := into.scan(name, value); err != nil {
			return err
		}
	}
	return members.err
}

func scanText(value []byte, into *string) error {
	b, err := text(value)
	*into = string(b)
	return err
}

func scanInt(value []byte, into *int64) (err error) {
	if string(value) != "null" {
		*into, err = strconv.ParseInt(string(value), 10, 64)
	}
	return err
}

// identified is an object of which only the id is wanted.
type identified struct {
	ID string `json:"id"`
}

func (o *identified) scan(name, value []byte) error {
	if string(name) == "id" {
		return scanText(value, &o.ID)
	}
	return nil
}

func (r *threadStartResponse) scan(name, value []byte) error {
	if string(name) == "thread" {
		return scanInto(value, &r.Thread)
	}
	return nil
}

func (r *turnStartResponse) scan(name, value []byte) error {
	if string(name) == "turn" {
		return scanInto(value, &r.Turn)
	}
	return nil
}

func (p *summaryTextDeltaParams) scan(name, value []byte) error {
	switch string(name) {
	case "itemId":
		return scanText(value, &p.ItemID)
	case "delta":
		return scanText(value, &p.Delta)
	case "summaryIndex":
		index := int64(0)
		err := scanInt(value, &index)
		p.SummaryIndex = int(index)
		return err
	}
	return nil
}

func (p *itemCompletedParams) scan(name, value []byte) error {
	if string(name) == "item" {
		return scanInto(value, &p.Item)
	}
	return nil
}

func (i *threadItem) scan(name, value []byte) error {
	switch string(name) {
	case "type":
		return scanText(value, &i.Type)
	case "id":
		return scanText(value, &i.ID)
	case "summary":
		return unmarshal(value, &i.Summary)
	}
	return nil
}

func (p *rawResponseParams) scan(name, value []byte) error {
	if string(name) == "usage" && string(value) != "null" {
		p.Usage = &Usage{}
		return scanInto(value, p.Usage)
	}
	return nil
}

func (p *tokenUsageParams) scan(name, value []byte) error {
	if string(name) == "tokenUsage" {
		return scanInto(value, &p.TokenUsage)
	}
	return nil
}

func (u *tokenUsage) scan(name, value []byte) error {
	if string(name) == "total" {
		return scanInto(value, &u.Total)
	}
	return nil
}

func (u *Usage) scan(name, value []byte) error {
	switch string(name) {
	case "inputTokens":
		return scanInt(value, &u.InputTokens)
	case "cachedInputTokens":
		return scanInt(value, &u.CachedInputTokens)
	case "outputTokens":
		return scanInt(value, &u.OutputTokens)
	case "reasoningOutputTokens":
		return scanInt(value, &u.ReasoningOutputTokens)
	case "totalTokens":
		return scanInt(value, &u.TotalTokens)
	}
	return nil
}

func (p *turnCompletedParams) scan(name, value []byte) error {
	if string(name) == "turn" {
		return scanInto(value, &p.Turn)
	}
	return nil
}

func (t *turnObject) scan(name, value []byte) error {
	switch string(name) {
	case "status":
		return scanText(value, (*string)(&t.Status))
	case "error":
		return unmarshal(value, &t.Error)
	}
	return nil
}
