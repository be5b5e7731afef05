package daemon

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/remotes/transcript"
	"codex-proxy/test/await"
	"codex-proxy/test/bed"
	"codex-proxy/test/modelserver"
)

// follow opens the thread of a remote on the page.
func (p *page) follow(remote string) *json.Decoder {
	p.T.Helper()
	res := p.do(http.MethodPost, "/api/follow", strings.NewReader(`{"verb":"transcript","words":{"remote":"`+remote+`"}}`))
	require.Equal(p.T, http.StatusOK, res.StatusCode)
	p.T.Cleanup(func() { res.Body.Close() })
	return json.NewDecoder(res.Body)
}

// untilThread waits for an update of the thread; the result has all items that were sent.
func untilThread(t *testing.T, stream *json.Decoder, what string, ok func(transcript.Update) bool) transcript.Update {
	t.Helper()
	for {
		var u transcript.Update
		require.NoError(t, stream.Decode(&u), what)
		if ok(u) {
			return u
		}
	}
}

func said(u transcript.Update, kind, text string) bool {
	for _, i := range u.Items {
		if i.Kind == kind && strings.Contains(i.Text, text) {
			return true
		}
	}
	return false
}

// A person works with a remote on the page, without a terminal: sends, reads along, approves, declines and interrupts. A
// console that only shows sees the thread and no question, and nothing of it is in the journal.
func TestConsoleRemote(t *testing.T) { bed.EitherSuite(t, testConsoleRemote) }

func testConsoleRemote(t *testing.T, suite string) {
	b := bed.New(t, suite, bed.RealWorker, "")
	b.Start()
	bed.NewRemote(b, "build", "", "")
	answer := func(word string, steps ...string) {
		require.NoError(t, b.Models.Add(modelserver.Script{Word: word, Times: 1, Steps: steps}))
	}
	p := openConsole(b, "")
	send := func(text string) string {
		status, got := p.order("send", map[string]string{"remote": "build", "text": text})
		require.Equal(t, http.StatusOK, status, got)
		return got["thread"].(string)
	}
	answer("first-word", "text hello there")
	thread := send("first-word")
	stream := p.follow("build")
	untilThread(t, stream, "the answer", func(u transcript.Update) bool { return u.Thread == thread && said(u, "agent", "hello there") })
	ask := func(word, file string) transcript.Question {
		answer(word, `call exec_command {"cmd":"touch /srv/build/`+file+`","sandbox_permissions":"require_escalated","justification":"MAY-I"}`)
		send(word)
		u := untilThread(t, stream, "the question", func(u transcript.Update) bool { return len(u.Questions) > 0 })
		assert.True(t, u.Waits)
		assert.Contains(t, u.Questions[0].Text, "touch /srv/build/"+file)
		assert.Contains(t, u.Questions[0].Reason, "MAY-I")
		await.True(t, func() bool {
			return strings.Contains(b.MustRun(t, "codex-proxy", "remotes", "list", "--json"), `"alone_since"`)
		}, bed.Bound, "a page that is open keeps the alert from a person")
		assert.Equal(t, "asleep-no", b.MustRun(t, "sh", "-c", "test -e /srv/build/"+file+" || printf asleep-no"), "it waits")
		return u.Questions[0]
	}
	decide := func(q transcript.Question, decision string) {
		status, got := p.order("approve", map[string]string{"remote": "build", "thread": thread, "question": q.ID, "decision": decision})
		require.Equal(t, http.StatusOK, status, got)
	}
	q := ask("second-word", "made")
	answer("second-word", "text it has run")
	decide(q, "accept")
	untilThread(t, stream, "it goes on", func(u transcript.Update) bool { return said(u, "agent", "it has run") })
	b.MustRun(t, "test", "-e", "/srv/build/made")
	status, got := p.order("approve", map[string]string{"remote": "build", "thread": thread, "question": q.ID, "decision": "accept"})
	assert.Equal(t, http.StatusUnprocessableEntity, status)
	assert.Contains(t, got["error"], "does not wait for this any more")
	untilThread(t, stream, "the end of the turn", func(u transcript.Update) bool { return u.Turn == "" })
	q = ask("third-word", "never")

	// Another console only watches meanwhile.
	shows := openConsoleAt(b, "--read-only --port=8790", "http://127.0.0.1:8790")
	watching := shows.follow("build")
	u := untilThread(t, watching, "the thread", func(u transcript.Update) bool { return said(u, "agent", "it has run") && u.Waits })
	assert.Empty(t, u.Questions)
	for verb, words := range map[string]map[string]string{
		"send": {"text": "x"}, "interrupt": {"thread": thread}, "approve": {"thread": thread, "question": q.ID, "decision": "accept"},
	} {
		words["remote"] = "build"
		status, got := shows.order(verb, words)
		assert.Equal(t, http.StatusUnprocessableEntity, status, verb)
		assert.Contains(t, got["error"], "--read-only", verb)
	}

	answer("third-word", "text then not")
	decide(q, "decline")
	untilThread(t, stream, "it goes on without it", func(u transcript.Update) bool { return u.Turn == "" })
	_, _, err := b.Run(t.Context(), "test", "-e", "/srv/build/never")
	require.Error(t, err, "declined")

	answer("patch-word", "custom apply_patch *** Begin Patch\n*** Add File: /var/tmp/patched\n+by the model\n*** End Patch")
	send("patch-word")
	u = untilThread(t, stream, "the changes of files", func(u transcript.Update) bool { return len(u.Questions) > 0 && u.Questions[0].Text != "" })
	assert.Equal(t, "add /var/tmp/patched\n  by the model\n", u.Questions[0].Text)
	assert.Contains(t, u.Questions[0].Decisions, "accept")
	answer("patch-word", "text then so")
	decide(u.Questions[0], "accept")
	untilThread(t, stream, "it goes on with them", func(u transcript.Update) bool { return u.Turn == "" && len(u.Questions) == 0 })

	answer("fourth-word", "text a beginning", "gate never", "text an end")
	send("fourth-word")
	untilThread(t, stream, "it runs", func(u transcript.Update) bool { return u.Turn != "" && said(u, "agent", "a beginning") })
	status, got = p.order("interrupt", map[string]string{"remote": "build", "thread": thread})
	require.Equal(t, http.StatusOK, status, got)
	untilThread(t, stream, "it is interrupted", func(u transcript.Update) bool { return u.Turn == "" })

	out := b.MustRun(t, "codex-proxy", "remotes", "transcript", "build")
	assert.Contains(t, out, "hello there")
	_, stderr, err := b.Run(t.Context(), "codex-proxy", "remotes", "interrupt", "build")
	require.Error(t, err)
	assert.Contains(t, stderr, "no turn of the thread runs")
	journal := b.MustRun(t, "journalctl", "--no-pager", "-o", "export")
	for _, word := range []string{"hello there", "MAY-I", "second-word", "touch /srv"} {
		assert.NotContains(t, journal, word, "no content is in the journal")
	}
}
