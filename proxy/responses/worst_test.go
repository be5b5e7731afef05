package responses

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"codex-proxy/proxy"
	"codex-proxy/proxy/intake"
	"codex-proxy/proxy/limits/limitstest"
	"codex-proxy/proxy/openai"
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
		var c openai.Compacted
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
	e := New(Settings{Intake: intake.New(intake.Settings{})})
	return func(body []byte) (made []any, footprint int64) {
		req, err := openai.DecodeResponse(body)
		if err != nil {
			return []any{err}, 0
		}
		job, err := e.newJob(t.Context(), &proxy.Exchange{}, req, nil)
		if err != nil {
			return []any{req, err}, 0
		}
		plan, err := planTurn(req, job.conversation())
		if err != nil {
			return []any{job, err}, 0
		}
		plan.turn.Fingerprint()
		return []any{job, plan}, plan.turn.Footprint()
	}
}
