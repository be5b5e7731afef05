package runner

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/await"
	"codex-proxy/test/bed"
)

// console has alice, a member of the group, open the page: it shows her own sessions, and cancels one. Its server is a
// process without rights, and the page of root that only looks cancels none.
func (b *daemonBed) console(t *testing.T) {
	const url = "http://127.0.0.1:8789"
	open := func(command string) (ask func(method, path, body string) *http.Response) {
		link := strings.TrimSpace(b.MustRun(t, "sh", "-ec", "rm -f /run/link; mkfifo -m 666 /run/link; setsid "+command+
			" >/run/link 2>/run/console.log </dev/null & head -n 1 /run/link"))
		address, token, found := strings.Cut(link, "/#")
		require.True(t, found, link)
		require.Equal(t, url, address)
		session := ""
		ask = func(method, path, body string) *http.Response {
			req, err := http.NewRequestWithContext(t.Context(), method, url+path, bytes.NewReader([]byte(body)))
			require.NoError(t, err)
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("Authorization", "Bearer "+session)
			res, err := b.HTTPClient().Do(req)
			require.NoError(t, err)
			t.Cleanup(func() { res.Body.Close() })
			return res
		}
		var given struct{ Session, Service string }
		require.NoError(t, json.NewDecoder(ask(http.MethodPost, "/api/session", `{"token":"`+token+`"}`).Body).Decode(&given))
		session = given.Session
		assert.Equal(t, "codex-runner", given.Service)
		return ask
	}
	end := func(of string) {
		b.MustRun(t, "sh", "-ec", "kill -INT $(pgrep -f 'codex-runner console"+of+"$')")
		await.True(t, func() bool {
			_, _, err := b.Run(t.Context(), "pgrep", "-f", "codex-runner console|console-serve")
			return err != nil
		}, bed.Bound, "the console has not ended")
	}
	type line struct {
		Whole   bool                         `json:"sessions_whole"`
		Changed []struct{ ID, State string } `json:"changed"`
	}
	others := b.create(script("sleep 1000"))
	own := strings.TrimSpace(b.MustRun(t, "runuser", "-u", "alice", "--", "codex-runner", "run", "--detach", "--", "sleep", "1000"))
	ask := open("runuser -u alice -- codex-runner console")
	watch := json.NewDecoder(ask(http.MethodGet, "/api/watch", "").Body)
	var first line
	require.NoError(t, watch.Decode(&first))
	assert.True(t, first.Whole)
	for _, s := range first.Changed {
		assert.NotEqual(t, others.ID, s.ID, "the session of another user")
	}
	res := ask(http.MethodPost, "/api/do", `{"verb":"cancel","words":{"session":"`+others.ID+`"}}`)
	assert.Equal(t, http.StatusUnprocessableEntity, res.StatusCode)
	res = ask(http.MethodPost, "/api/do", `{"verb":"cancel","words":{"session":"`+own+`"}}`)
	assert.Equal(t, http.StatusOK, res.StatusCode)
	for closed := false; !closed; {
		var next line
		require.NoError(t, watch.Decode(&next))
		for _, s := range next.Changed {
			closed = closed || s.ID == own && s.State == "closed"
		}
	}
	end("")

	ask = open("codex-runner console --all --read-only")
	require.NoError(t, json.NewDecoder(ask(http.MethodGet, "/api/watch", "").Body).Decode(&first))
	assert.Contains(t, first.Changed, struct{ ID, State string }{others.ID, "active"}, "root sees all")
	res = ask(http.MethodPost, "/api/do", `{"verb":"cancel","words":{"session":"`+others.ID+`"}}`)
	assert.Equal(t, http.StatusUnprocessableEntity, res.StatusCode)
	server := b.MustRun(t, "sh", "-ec", "cat /proc/$(pgrep -f 'console-serve$')/status")
	assert.Contains(t, server, "Uid:\t65534\t65534\t65534\t65534\n")
	assert.Contains(t, server, "CapEff:\t0000000000000000\n")
	end(" --all --read-only")
	b.MustRun(t, "codex-runner", "cancel", others.ID)
}
