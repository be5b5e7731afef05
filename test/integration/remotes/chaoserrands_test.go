package remotes

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/accountserver"
	"codex-proxy/test/bed"
)

// accountErrands asserts that every response in the background has ended once, as what its client saw, and that the stream
// that its client had in pieces is the stored one, byte for byte.
func (c *chaos) accountErrands() {
	t := c.bed.T
	ends, asked, cuts, received := map[string]int{}, asked(c.bed.Bed), 0, 0
	for _, j := range c.errands.all {
		assert.Empty(t, j.strange, "%s", j)
		assert.LessOrEqual(t, len(asked[j.ID]), maxAttempts, "%s", j)
		cuts += j.cuts
		received += len(j.events)
		switch {
		case j.response != "":
			ends[c.endOf(j)]++
		case j.Status != 0 && j.Status != http.StatusOK:
			ends["retry permitted"]++
			assert.Equal(t, http.StatusServiceUnavailable, j.Status, "%s", j)
			assert.Contains(t, j.refusal, `"retryable":true`, "%s", j)
		default: // an answer without a first event, or none
			ends["cut by a kill of the proxy"]++
			assert.True(t, slices.ContainsFunc(c.kills, c.cut(j)) || j.Stream && j.Status == http.StatusOK, "%s", j)
		}
	}
	t.Logf("the ledger of responses in the background: %v; %d events, in streams that were resumed %d times", ends,
		received, cuts)
	assert.Greater(t, ends["completed"], len(c.happened))
	assert.Positive(t, ends["cancelled"])
	assert.LessOrEqual(t, ends["failed: abandoned"], len(c.kills)*errandClients)
}

// cut is entry.cutBy for the whole life of a response, which a kill may end at any time.
func (c *chaos) cut(j *errand) func(bed.Within) bool {
	return func(kill bed.Within) bool {
		return j.Began.Before(kill.To.Add(bed.Bound)) && j.Ended.After(kill.From)
	}
}

// endOf is how a response ended. It asserts that all who ask now receive what its client received.
func (c *chaos) endOf(j *errand) string {
	t := c.bed.T
	kept := c.bed.Poll(j.response)
	assert.True(t, j.forward(), "%s", j)
	if assert.NotEmpty(t, j.statuses, "%s", j) {
		assert.Equal(t, kept.Status, j.statuses[len(j.statuses)-1], "%s", j)
	}
	assert.Equal(t, j.cancelled, kept.Status == "cancelled", "%s", j)
	if j.Stream {
		c.assertStream(j, kept)
	}
	switch kept.Status {
	case "completed":
		assert.Equal(t, j.script().Want(), kept.Text(), "%s", j)
	case "failed":
		return "failed: " + c.why(j, kept)
	default:
		assert.Equal(t, "cancelled", kept.Status, "%s", j)
	}
	return kept.Status
}

// assertStream compares the pieces of a stream with the stored one.
func (c *chaos) assertStream(j *errand, kept bed.Polled) {
	t := c.bed.T
	ctx, cancel := context.WithTimeout(t.Context(), bed.Bound)
	defer cancel()
	stored, err := c.bed.Resume(ctx, j.response, -1, bed.ToTheEnd)
	require.NoError(t, err, "%s", j)
	last := bed.AssertWhole(t, stored)
	assert.Equal(t, kept.Status, last.Answer.Status, "%s", j)
	received := bed.Raw(j.events)
	assert.True(t, strings.HasPrefix(bed.Raw(stored), received), "%s\nis stored as\n%s", j, bed.Raw(stored))
	if n := len(j.events); n > 0 && j.events[n-1].Ends() {
		assert.Len(t, stored, n, "%s", j)
	}
	text := ""
	for _, e := range stored {
		text += e.Delta
	}
	if kept.Status != "failed" || text != accountserver.RefusedText { // which an account sent without quota
		assert.True(t, strings.HasPrefix(j.script().Want(), text), "%s", j)
	}
	if kept.Status == "completed" {
		assert.Equal(t, j.script().Want(), text, "%s", j)
	}
}

// why is the reason of a failure, which has to be one of those that happened.
func (c *chaos) why(j *errand, kept bed.Polled) string {
	t := c.bed.T
	if !assert.NotNil(t, kept.Error, "%s", j) {
		return "without an error"
	}
	switch {
	case strings.Contains(kept.Error.Message, bed.Abandoned):
		assert.True(t, slices.ContainsFunc(c.kills, c.cut(j)), "abandoned without a kill: %s", j)
		return "abandoned"
	case kept.Error.Code == "insufficient_quota":
		return "the quota ran out"
	default:
		assert.Equal(t, "server_error", kept.Error.Code, "%s", j)
		assert.NotEmpty(t, kept.Error.Message)
		return fmt.Sprintf("%.50s", kept.Error.Message)
	}
}
