package remotes

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/stretchr/testify/assert"

	"codex-proxy/test/bed"
)

// remoteErrands are the messages of a person to a remote, one after the other.
type remoteErrands struct {
	bed.Remote
	stop   func()
	thread string
	done   sync.WaitGroup
	sent   []string          // each message
	times  map[string]string // when the command for it began and ended
	missed map[string]bool   // those that the command has failed for: they may have come or not
}

// startRemoteErrands begin; they end with the test at the latest.
func startRemoteErrands(b *bed.Bed) *remoteErrands {
	ctx, stop := context.WithCancel(context.Background())
	all := &remoteErrands{Remote: bed.NewRemote(b, "chaos", "", ""), stop: stop, times: map[string]string{}, missed: map[string]bool{}}
	b.T.Cleanup(func() { stop(); all.done.Wait() })
	all.done.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			all.send(fmt.Sprintf("errand-%04d [[text first]] [[delay 300ms]] [[text last]]", n))
			bed.Pause(ctx, 200*time.Millisecond)
		}
	})
	return all
}

// send is a command of the person, which may be cut with the remote.
func (all *remoteErrands) send(text string) {
	ctx, cancel := context.WithTimeout(context.Background(), bed.Hung)
	defer cancel()
	all.sent = append(all.sent, text)
	began := time.Now()
	thread, _, err := all.Run(ctx, "codex-proxy", "remotes", "send", all.Name, text)
	all.times[text] = fmt.Sprint(began.Format(time.TimeOnly+".000"), " to ", time.Now().Format(time.TimeOnly+".000"))
	assert.NoError(all.T, ctx.Err(), "remotes send hangs")
	if err != nil {
		all.missed[text] = true
		return
	}
	if all.thread == "" {
		all.thread = bed.Trim(thread)
	}
	assert.Equal(all.T, all.thread, bed.Trim(thread), "it is one conversation")
}

// leave waits for the end of the last turn.
func (all *remoteErrands) leave() {
	all.stop()
	all.done.Wait()
	all.send("errand-last")
	untilIdle(all.Bed, all.Remote)
}

// account asserts that each message is in the conversation once, in its order, unless the person knows that it may not.
func (all *remoteErrands) account() {
	t, p := all.T, attach(all.Remote)
	had := p.history(all.thread, func(string) {})
	seen := map[string]bool{}
	for _, text := range had {
		assert.False(t, seen[text], "twice: %s", text)
		seen[text] = true
	}
	whole := strings.Join(had, "\n")
	for _, text := range all.sent {
		if !all.missed[text] && !assert.True(t, strings.Contains(whole, text), "a message is lost: %s, sent at %s", text, all.times[text]) {
			t.Log(all.MustRun(t, "journalctl", "--unit="+all.Unit, "--output=short-precise", "--no-pager"))
		}
	}
	t.Logf("the turn journal of the remote: %d messages, %d in the conversation, %d commands failed", len(all.sent), len(had), len(all.missed))
	assert.NotEmpty(t, had)
	p.Close(nil)
	all.MustRun(t, "systemctl", "stop", all.Unit, all.Socket)
}
