package remotes_test

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"codex-proxy/codex/versions"
	"codex-proxy/remotes"
	"codex-proxy/remotes/remoteapi"
	"codex-proxy/test/codexes"
	"codex-proxy/test/nightly"
)

// The manager keeps each codex that remotes take.
func TestOlderCodexes(t *testing.T) {
	codexes.Older(t, versions.OldestForRemotes, map[string]func(*testing.T){
		"approvals wait": TestApprovalsWait, "continue asks": TestContinueAsks, "first messages": TestFirstMessagesAskOnce,
		"new threads survive kills": TestNewThreadsSurviveKills, "send": TestSend,
		"turns survive kills": func(t *testing.T) { testKills(t, 6, 1) },
	})
}

// The first message of a thread asks the model once, whoever starts the thread and sends the message: an item that codex
// gets while the first turn runs makes it ask once more. 100 are sent here in `make nightly`, and 100 to workers in package appserver.
func TestFirstMessagesAskOnce(t *testing.T) {
	u := startUnit(t)
	perWay := nightly.Or(20, 6)
	if version, _ := codexes.Version(os.Getenv("CODEX_PROXY_TEST_CODEX")); versions.Older(version, versions.Tested) {
		perWay = 4
	}
	c := u.attach()
	send := func(thread, text string) error {
		_, err := remoteapi.SendTo(bound(t), u.socket, thread, text)
		return err
	}
	ask := func(thread, text string) error {
		return c.Call(bound(t), "turn/start", map[string]any{"threadId": thread, "input": []any{
			map[string]any{"type": "text", "text": text, "text_elements": []any{}}}}, nil)
	}
	base := ""
	for n := range perWay { // a remote without threads
		text := fmt.Sprint("message alone ", n)
		require.NoError(t, send("", text))
		base = u.status("it ran", func(st remotes.Status) bool { return idle(st) && u.asked(text) }).Last
		require.NoError(t, c.Call(bound(t), "thread/archive", map[string]any{"threadId": base}, nil))
		u.status("it has no thread", func(st remotes.Status) bool { return st.Last == "" })
	}
	require.NoError(t, c.Call(bound(t), "thread/unarchive", map[string]any{"threadId": base}, nil))
	for way, first := range map[string]func(n int, text string) error{
		"of a client": func(_ int, text string) error { return ask(c.newThread(), text) },
		"of another":  func(_ int, text string) error { return send(c.newThread(), text) },
		"of a fork": func(_ int, text string) error {
			var r struct {
				Thread struct {
					ID string `json:"id"`
				} `json:"thread"`
			}
			err := c.Call(bound(t), "thread/fork", map[string]any{"threadId": base}, &r)
			return errors.Join(err, ask(r.Thread.ID, text))
		},
		"sent again": func(n int, text string) error { // by a sender that did not learn of the first time
			thread := c.newThread()
			for range 2 {
				u.post("/keeper/send", fmt.Sprintf(`{"thread":%q,"text":%q,"id":"again-%d","again":true}`, thread, text, n))
			}
			return nil
		},
	} {
		var all errgroup.Group
		all.SetLimit(4)
		for n := range perWay {
			all.Go(func() error { return first(n, fmt.Sprintf("message %s %d", way, n)) })
		}
		require.NoError(t, all.Wait(), way)
		u.status("all ran", func(st remotes.Status) bool { return idle(st) && u.asked(fmt.Sprintf("message %s %d", way, perWay-1)) })
	}
	asked := map[string]int{}
	for _, r := range u.models.Turns() {
		asked[fmt.Sprint(userTexts(r))]++
	}
	assert.Len(t, asked, 5*perWay)
	for text, times := range asked {
		assert.Equal(t, 1, times, text)
	}
}
