package appserver

import (
	"codex-proxy/codex/jsonscan"
	"codex-proxy/codex/turnerror"
)

// The notifications of a turn, with the fields in use. They are scanned without reflection: codex sends several times
// more members.
type (
	summaryTextDeltaParams struct {
		ItemID       string `json:"itemId"`
		Delta        string `json:"delta"`
		SummaryIndex int    `json:"summaryIndex"`
	}
	itemCompletedParams struct {
		Item threadItem `json:"item"`
	}
	// threadItem is a reasoning item; items of other types make no event.
	threadItem struct {
		Type    string   `json:"type"`
		ID      string   `json:"id"`
		Summary []string `json:"summary"`
	}
	rawResponseParams struct {
		Usage *Usage `json:"usage"`
	}
	errorParams struct {
		Error     *turnerror.Error `json:"error"`
		WillRetry bool             `json:"willRetry"`
	}
	turnCompletedParams struct {
		Turn turnObject `json:"turn"`
	}
	turnObject struct {
		Status TurnStatus       `json:"status"`
		Error  *turnerror.Error `json:"error"`
	}
)

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
