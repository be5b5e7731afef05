package turn_test

import (
	"context"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appservertest"
	"codex-proxy/proxy/api/apitest"
)

// onTrial judges the codex of the worker as new until it has failed three turns.
type onTrial struct {
	ended, faults atomic.Int64
	crashes       sync.Map
}

func (o *onTrial) Ended(_ string, _ int64, fault string, crash any) {
	if crash != nil {
		o.crashes.Store(crash, true)
	}
	o.ended.Add(1)
	if fault != "" {
		o.faults.Add(1)
	}
}

func (o *onTrial) OnProbation(string) bool { return o.faults.Load() < 3 }

// A turn that a new codex fails by itself runs again while its client has nothing of it. What the endpoint refuses does
// not, and is no fault of codex.
func TestFaultsOfANewCodexRunAgain(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		failure appservertest.Failure
		before  string // text before the failure
		status  int
		faults  int64
	}{
		"codex itself":           {appservertest.Failure{Message: "no such table: threads", Info: "other"}, "", http.StatusOK, 3},
		"after text":             {appservertest.Failure{Message: "no such table: threads", Info: "other"}, "half", http.StatusBadGateway, 1},
		"the endpoint's refusal": {appservertest.Failure{Message: "no", Info: appservertest.HTTPInfo("httpConnectionFailed", 403)}, "", http.StatusBadGateway, 0},
		"a body of a 400":        {appservertest.Failure{Message: `{"error":{"message":"no"}}`, Info: "other"}, "", http.StatusBadRequest, 0},
		"an older codex's 502":   {appservertest.Failure{Message: "unexpected status 502 Bad Gateway: no", Info: "other"}, "", http.StatusBadGateway, 0},
		"no connection":          {appservertest.Failure{Message: "Connection failed: no route", Info: "other"}, "", http.StatusBadGateway, 0},
		"a cut stream":           {appservertest.Failure{Message: "stream disconnected before completion: x", Info: "other"}, "", http.StatusBadGateway, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			trial := &onTrial{}
			worker := &appservertest.Server{Handler: func(_ context.Context, turn *appservertest.Turn) error {
				if !trial.OnProbation("") {
					turn.Text("fine")
					return nil
				}
				if tc.before != "" {
					turn.Text(tc.before)
				}
				return &tc.failure
			}}
			r := apitest.NewRig(t, worker, func(o *apitest.Options) { o.Codexes = trial })
			body := apitest.Hello("")
			if tc.before != "" {
				body = apitest.Hello(apitest.Streaming)
			}
			resp := r.Chatting(t, body)
			answer, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			if tc.before == "" {
				assert.Equal(t, tc.status == http.StatusOK, resp.StatusCode == http.StatusOK, string(answer))
			}
			assert.Equal(t, tc.faults, trial.faults.Load())
			assert.GreaterOrEqual(t, trial.ended.Load(), tc.faults)
		})
	}
}

// Turns that are lost in one end of codex name the same crash.
func TestTurnsOfACrashNameIt(t *testing.T) {
	t.Parallel()
	trial := &onTrial{}
	var begun atomic.Int64
	var both sync.WaitGroup
	both.Add(2)
	worker := &appservertest.Server{Handler: func(ctx context.Context, turn *appservertest.Turn) error {
		if begun.Add(1) <= 2 {
			both.Done()
			both.Wait() // for the other turn
			turn.Peer().Disconnect()
			<-ctx.Done()
			return ctx.Err()
		}
		turn.Text("fine")
		return nil
	}}
	r := apitest.NewRig(t, worker, func(o *apitest.Options) { o.Codexes = trial })
	var clients sync.WaitGroup
	for range 2 {
		clients.Go(func() { r.Chatting(t, apitest.Hello("")) })
	}
	clients.Wait()
	crashes := 0
	trial.crashes.Range(func(any, any) bool { crashes++; return true })
	assert.Equal(t, 1, crashes)
	assert.EqualValues(t, 2, trial.faults.Load())
}
