package proxyorders

import (
	"context"
	"strings"

	"codex-proxy/console/verbs"
)

// maxRows bounds the rows of usage that a page gets.
const maxRows = 500

// usage is the usage of API keys for the page.
type usage struct {
	Since string           `json:"since"`
	Usage []map[string]any `json:"usage"` // oldest first
	// Rows is how many there are; Usage has the newest 500.
	Rows int `json:"rows"`
	// Sums is the usage by time alone, whatever the number of rows.
	Sums []map[string]any `json:"sums"`
}

func (s Settings) usage(ctx context.Context, w verbs.Words, _ verbs.Send) (any, error) {
	var all, sums usage
	if err := s.Client.Get(ctx, "/v1/usage?since="+w["since"]+"&by="+w["by"], &all); err != nil {
		return nil, err
	}
	by, _, _ := strings.Cut(w["by"], ",")
	if err := s.Client.Get(ctx, "/v1/usage?since="+w["since"]+"&by="+by, &sums); err != nil {
		return nil, err
	}
	all.Rows, all.Sums = len(all.Usage), sums.Usage
	all.Usage = all.Usage[max(0, all.Rows-maxRows):]
	return all, nil
}
