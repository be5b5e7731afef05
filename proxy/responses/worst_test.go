package responses

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"codex-proxy/proxy"
	"codex-proxy/proxy/admission"
	"codex-proxy/proxy/limits/limitstest"
	"codex-proxy/proxy/openai/jsonbody"
	"codex-proxy/proxy/responses/plan"
	"codex-proxy/proxy/responses/wire"
)

func TestWorstBody(t *testing.T) {
	limitstest.WorstBody(t, (*limitstest.Genome).Response, takingIn(t))
}

// Compactions hold texts that count as one each, and become several.
func TestWorstCompactions(t *testing.T) {
	limitstest.WorstBody(t, func(g *limitstest.Genome) string {
		body := g.Response()
		begin, rest, _ := strings.Cut(body, `"input":[`)
		return begin + `"input":[` + compactions(t, len(body)) + rest
	}, takingIn(t))
}

// compactions are items whose number and content depend on a number.
func compactions(t *testing.T, n int) string {
	t.Helper()
	items, standing, text := []int{1, 10, 100, 500}[n%4], []int{0, 1, 8, 64}[n/4%4], []string{"", "é", "\x01", "\n"}[n/16%4]
	var list strings.Builder
	for i := range items {
		var c wire.Compacted
		for s := range standing {
			c.Standing = append(c.Standing, strconv.Itoa(i*standing+s)+text)
		}
		c.Summary = strings.Repeat(text, []int{0, 10, 1000}[n/64%3])
		content, ok := c.Encode()
		require.True(t, ok)
		list.WriteString(`{"type":"compaction","encrypted_content":"` + content + `"},`)
	}
	return list.String()
}

// takingIn plans the turn of a body.
func takingIn(t *testing.T) limitstest.TakeIn {
	t.Helper()
	e := New(Settings{Admission: admission.New(admission.Settings{})})
	return func(body []byte) (made []any, footprint int64) {
		req, err := wire.Decode(body, jsonbody.Reading{})
		if err != nil {
			return []any{err}, 0
		}
		job, err := e.jobs.New(t.Context(), &proxy.Exchange{}, req, nil)
		if err != nil {
			return []any{req, err}, 0
		}
		plan, err := plan.New(req, job.Conversation())
		if err != nil {
			return []any{job, err}, 0
		}
		plan.Turn.Fingerprint()
		return []any{job, plan}, plan.Turn.Footprint()
	}
}
