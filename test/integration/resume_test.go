package integration

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"codex-proxy/test/modelserver"
)

// interrupted is a prompt whose answer stops twice.
const interrupted = "[[text one ]][[gate first]][[text two ]][[gate second]][[text three]]"

// A stream that is cut and resumed has the bytes of one that is not, although each part comes from another process: the
// process that began the turn writes it to its end, and the others read with it.
func TestResumeAcrossReloads(t *testing.T) { bothSuites(t, testResumeAcrossReloads) }

func testResumeAcrossReloads(t *testing.T, suite string) {
	b := newBed(t, suite, realWorker, "")
	b.start()
	b.resumeAcross(func() { b.MustRun(t, "systemctl", "reload", proxyUnit) })
	b.assertSmooth()
}

// The same over upgrades of the package.
func TestResumeAcrossUpgrades(t *testing.T) { bothSuites(t, testResumeAcrossUpgrades) }

func testResumeAcrossUpgrades(t *testing.T, suite string) {
	p, b := deb(t), newBed(t, suite, realWorker, "")
	b.start()
	files := []string{p.next, p.now}
	b.resumeAcross(func() {
		p.install(b, files[0])
		files = files[1:]
	})
	b.assertSmooth()
}

// resumeAcross begins a response and cuts its stream, and resumes it twice, each time in a process that change started.
func (b *bed) resumeAcross(change func()) {
	t := b.t
	t.Helper()
	first := b.stream(interrupted, "one ")
	got := b.resumed(first.id, -1, toText("one "))
	for _, part := range []struct{ gate, text string }{{"first", "two "}, {"second", "three"}} {
		before := b.mainPID()
		change()
		require.NotEqual(t, before, b.mainPID())
		assert.Equal(t, "in_progress", b.poll(first.id).Status)
		stop := toText(part.text)
		if part.gate == "second" {
			stop = toTheEnd
		}
		next := b.resuming(first.id, got[len(got)-1].number, stop)
		b.models.Release(part.gate)
		got = append(got, next()...)
	}
	last := assertWhole(t, got)
	assert.Equal(t, "response.completed", last.kind)
	assert.Equal(t, "one two three", last.answer.text())
	assert.Equal(t, raw(first.whole(t)), raw(got))
	b.assertSame(first.id, got)
	kept := b.poll(first.id)
	assert.Equal(t, "completed", kept.Status)
	assert.Equal(t, "one two three", kept.text())
	assert.Len(t, b.models.Turns(), 1)
	b.awaitSole()
	b.assertSame(first.id, got)
}

// A restart finishes responses in the background, as it does turns whose clients wait, and the next process has them.
func TestResumeAcrossARestart(t *testing.T) { bothSuites(t, testResumeAcrossARestart) }

func testResumeAcrossARestart(t *testing.T, suite string) {
	b := newBed(t, suite, realWorker, "")
	b.start()
	first := b.stream(interrupted, "one ")
	polledOne := b.response(http.MethodPost, "", inBackground(false, interrupted+" polled"))
	assert.Contains(t, []string{"queued", "in_progress"}, polledOne.Status)
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	_, err := b.models.Wait(ctx, modelserver.AtGate("first", 2))
	require.NoError(t, err)
	got := b.resumed(first.id, -1, toText("one "))

	before, restarted := b.mainPID(), make(chan error, 1)
	go func() {
		_, _, err := b.Run(t.Context(), "systemctl", "restart", proxyUnit)
		restarted <- err
	}()
	b.awaitStatus("Stopping")
	meanwhile := b.resuming(first.id, got[len(got)-1].number, toTheEnd) // waits for the next process
	b.models.Release("first")
	b.models.Release("second")
	require.NoError(t, <-restarted)
	assert.NotEqual(t, before, b.mainPID())
	got = append(got, meanwhile()...)
	assert.Equal(t, "response.completed", assertWhole(t, got).kind)
	assert.Equal(t, raw(first.whole(t)), raw(got))
	b.assertSame(first.id, got)
	for _, id := range []string{first.id, polledOne.ID} {
		kept := b.poll(id)
		assert.Equal(t, "completed", kept.Status)
		assert.Equal(t, "one two three", kept.text())
	}
	assert.Len(t, b.models.Turns(), 2)
	b.assertSmooth()
}

// A stop that has waited for drain_timeout ends responses in the background, once, with the reason.
func TestStopEndsBackground(t *testing.T) { bothSuites(t, testStopEndsBackground) }

func testStopEndsBackground(t *testing.T, suite string) {
	b := newBed(t, suite, realWorker, "drain_timeout = \"2s\"\n")
	b.start()
	first := b.stream("[[text one ]][[silence]]", "one ")
	b.MustRun(t, "systemctl", "restart", proxyUnit)
	got := first.whole(t)
	last := assertWhole(t, got)
	assert.Equal(t, "response.failed", last.kind)
	b.assertFailed(first.id, got, "the service stopped before this answer was finished")
}

// assertFailed asserts that a response failed for the reason, in every form that clients receive.
func (b *bed) assertFailed(id string, events []wireEvent, reason string) {
	b.t.Helper()
	last := assertWhole(b.t, events)
	assert.Equal(b.t, "response.failed", last.kind)
	last.answer.assertFailed(b.t, reason)
	b.poll(id).assertFailed(b.t, reason)
	b.assertSame(id, events)
}

func (p polled) assertFailed(t *testing.T, reason string) {
	t.Helper()
	assert.Equal(t, "failed", p.Status)
	if assert.NotNil(t, p.Error) {
		assert.Equal(t, "server_error", p.Error.Code)
		assert.Contains(t, p.Error.Message, reason)
	}
}

// abandoned is the reason of a response whose process was killed.
const abandoned = "the service ended before the response was finished"

// kill -9 of the daemon ends its responses as failed, once, whoever finds them first, and nothing of what their clients
// have received is lost.
func TestResumeAfterKill(t *testing.T) { bothSuites(t, testResumeAfterKill) }

func testResumeAfterKill(t *testing.T, suite string) {
	b := newBed(t, suite, realWorker, patient)
	b.start()
	first := b.stream("[[text one ]][[silence]]", "one ")
	unread := b.response(http.MethodPost, "", inBackground(false, "[[text unread]][[silence]]"))
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	_, err := b.models.Wait(ctx, modelserver.AtLeast(2))
	require.NoError(t, err)
	b.signal(b.onlyProcess(proxyUnit), unix.SIGKILL)
	begun := first.cut(t)

	var followers []func() []wireEvent
	for range 16 { // all of them find it without an end
		followers = append(followers, b.resuming(first.id, begun[len(begun)-1].number, toTheEnd))
	}
	got := slices.Concat(begun, followers[0]())
	for _, follower := range followers[1:] {
		assert.Equal(t, raw(got), raw(begun)+raw(follower()))
	}
	b.assertFailed(first.id, got, abandoned)
	b.poll(unread.ID).assertFailed(t, abandoned)

	status, answer := b.called(http.MethodPost, "/"+first.id+"/cancel", "")
	assert.Equal(t, http.StatusBadRequest, status, string(answer))
	require.NoError(t, b.models.Script("text fine"))
	next := b.stream("next", "fine")
	assert.Equal(t, "response.completed", assertWhole(t, next.whole(t)).kind)
	b.MustRun(t, "systemctl", "restart", proxyUnit)
	b.assertFailed(first.id, got, abandoned)
}

// The process of before a reload dies: a client that follows in the next process learns it without a restart.
func TestResumeAfterKillOfThePredecessor(t *testing.T) {
	bothSuites(t, testResumeAfterKillOfThePredecessor)
}

func testResumeAfterKillOfThePredecessor(t *testing.T, suite string) {
	b := newBed(t, suite, realWorker, "")
	b.start()
	predecessor := b.onlyProcess(proxyUnit)
	first := b.stream("[[text one ]][[silence]]", "one ")
	b.MustRun(t, "systemctl", "reload", proxyUnit)
	got := b.resumed(first.id, -1, toText("one "))
	rest := b.resuming(first.id, got[len(got)-1].number, toTheEnd)
	b.signal(predecessor, unix.SIGKILL)
	died := b.awaitDeath(predecessor)
	got = append(got, rest()...)
	t.Logf("the follower has the end %s after the death", time.Since(died).Round(time.Millisecond))
	b.assertFailed(first.id, got, abandoned)
	assert.True(t, len(first.cut(t)) <= len(got))
	assert.NotEqual(t, predecessor.Inside, b.onlyProcess(proxyUnit).Inside)
}

// A response is cancelled by any process, whichever of them runs its turn.
func TestCancelAcrossAReload(t *testing.T) { bothSuites(t, testCancelAcrossAReload) }

func testCancelAcrossAReload(t *testing.T, suite string) {
	b := newBed(t, suite, realWorker, "")
	b.start()
	first := b.stream("[[text one ]][[silence]]", "one ")
	before := b.mainPID()
	b.MustRun(t, "systemctl", "reload", proxyUnit)
	require.NotEqual(t, before, b.mainPID())
	rest := b.resuming(first.id, 0, toTheEnd)
	for range 2 {
		assert.Equal(t, "cancelled", b.response(http.MethodPost, "/"+first.id+"/cancel", "").Status)
	}
	got := first.whole(t)
	last := assertWhole(t, got)
	assert.Equal(t, "cancelled", last.answer.Status)
	assert.Equal(t, raw(got[1:]), raw(rest()))
	assert.Equal(t, "cancelled", b.poll(first.id).Status)
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	_, err := b.models.Wait(ctx, modelserver.CutAtLeast(1))
	require.NoError(t, err, "the turn goes on")
	b.awaitSole()
	b.assertSame(first.id, got)
	b.assertSmooth()
}
