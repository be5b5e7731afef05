package proxy

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"codex-proxy/test/bed"
	"codex-proxy/test/modelserver"
)

// interrupted is a prompt whose answer stops twice.
const interrupted = "[[text one ]][[gate first]][[text two ]][[gate second]][[text three]]"

// A stream that is cut and resumed has the bytes of one that is not, although each part comes from another process: the
// process that began the turn writes it to its end, and the others read with it.
func TestResumeAcrossReloads(t *testing.T) { bed.EitherSuite(t, testResumeAcrossReloads) }

func testResumeAcrossReloads(t *testing.T, suite string) {
	b := bed.New(t, suite, bed.RealWorker, "")
	b.Start()
	resumeAcross(b, func() { b.MustRun(t, "systemctl", "reload", bed.ProxyUnit) })
	bed.AssertSmooth(b)
}

// The same over upgrades of the package.
func TestResumeAcrossUpgrades(t *testing.T) { bed.BothSuites(t, testResumeAcrossUpgrades) }

func testResumeAcrossUpgrades(t *testing.T, suite string) {
	p, b := bed.Deb(t), bed.New(t, suite, bed.RealWorker, "")
	b.Start()
	files := []string{p.Next, p.Now}
	resumeAcross(b, func() {
		p.Install(b, files[0])
		files = files[1:]
	})
	bed.AssertSmooth(b)
}

// resumeAcross begins a response and cuts its stream, and resumes it twice, each time in a process that change started.
func resumeAcross(b *bed.Bed, change func()) {
	t := b.T
	t.Helper()
	first := stream(b, interrupted, "one ")
	got := resumed(b, first.id, -1, toText("one "))
	for _, part := range []struct{ gate, text string }{{"first", "two "}, {"second", "three"}} {
		before := b.ProxyPID()
		change()
		require.NotEqual(t, before, b.ProxyPID())
		assert.Equal(t, "in_progress", b.Poll(first.id).Status)
		stop := toText(part.text)
		if part.gate == "second" {
			stop = bed.ToTheEnd
		}
		next := resuming(b, first.id, got[len(got)-1].Number, stop)
		b.Models.Release(part.gate)
		got = append(got, next()...)
	}
	last := bed.AssertWhole(t, got)
	assert.Equal(t, "response.completed", last.Kind)
	assert.Equal(t, "one two three", last.Answer.Text())
	assert.Equal(t, bed.Raw(first.whole(t)), bed.Raw(got))
	assertSame(b, first.id, got)
	kept := b.Poll(first.id)
	assert.Equal(t, "completed", kept.Status)
	assert.Equal(t, "one two three", kept.Text())
	assert.Len(t, b.Models.Turns(), 1)
	bed.AwaitSole(b)
	assertSame(b, first.id, got)
}

// A restart finishes responses in the background, as it does turns whose clients wait, and the next process has them.
func TestResumeAcrossARestart(t *testing.T) { bed.BothSuites(t, testResumeAcrossARestart) }

func testResumeAcrossARestart(t *testing.T, suite string) {
	b := bed.New(t, suite, bed.RealWorker, "")
	b.Start()
	first := stream(b, interrupted, "one ")
	polledOne := b.Response(http.MethodPost, "", bed.InBackground(false, interrupted+" polled"))
	assert.Contains(t, []string{"queued", "in_progress"}, polledOne.Status)
	ctx, cancel := context.WithTimeout(t.Context(), bed.Bound)
	defer cancel()
	_, err := b.Models.Wait(ctx, modelserver.AtGate("first", 2))
	require.NoError(t, err)
	got := resumed(b, first.id, -1, toText("one "))

	before, restarted := b.ProxyPID(), make(chan error, 1)
	go func() {
		_, _, err := b.Run(t.Context(), "systemctl", "restart", bed.ProxyUnit)
		restarted <- err
	}()
	awaitStatus(b, "Stopping")
	meanwhile := resuming(b, first.id, got[len(got)-1].Number, bed.ToTheEnd) // waits for the next process
	b.Models.Release("first")
	b.Models.Release("second")
	require.NoError(t, <-restarted)
	assert.NotEqual(t, before, b.ProxyPID())
	got = append(got, meanwhile()...)
	assert.Equal(t, "response.completed", bed.AssertWhole(t, got).Kind)
	assert.Equal(t, bed.Raw(first.whole(t)), bed.Raw(got))
	assertSame(b, first.id, got)
	for _, id := range []string{first.id, polledOne.ID} {
		kept := b.Poll(id)
		assert.Equal(t, "completed", kept.Status)
		assert.Equal(t, "one two three", kept.Text())
	}
	assert.Len(t, b.Models.Turns(), 2)
	bed.AssertSmooth(b)
}

// A stop that has waited for drain_timeout ends responses in the background, once, with the reason.
func TestStopEndsBackground(t *testing.T) { bed.BothSuites(t, testStopEndsBackground) }

func testStopEndsBackground(t *testing.T, suite string) {
	b := bed.New(t, suite, bed.RealWorker, "drain_timeout = \"2s\"\n")
	b.Start()
	first := stream(b, "[[text one ]][[silence]]", "one ")
	b.MustRun(t, "systemctl", "restart", bed.ProxyUnit)
	got := first.whole(t)
	last := bed.AssertWhole(t, got)
	assert.Equal(t, "response.failed", last.Kind)
	assertResponseFailed(b, first.id, got, "the service stopped before this answer was finished")
}

// assertResponseFailed asserts that a response failed for the reason, in every form that clients receive.
func assertResponseFailed(b *bed.Bed, id string, events []bed.WireEvent, reason string) {
	b.T.Helper()
	last := bed.AssertWhole(b.T, events)
	assert.Equal(b.T, "response.failed", last.Kind)
	assertFailed(last.Answer, b.T, reason)
	assertFailed(b.Poll(id), b.T, reason)
	assertSame(b, id, events)
}

func assertFailed(p bed.Polled, t *testing.T, reason string) {
	t.Helper()
	assert.Equal(t, "failed", p.Status)
	if assert.NotNil(t, p.Error) {
		assert.Equal(t, "server_error", p.Error.Code)
		assert.Contains(t, p.Error.Message, reason)
	}
}

// kill -9 of the daemon ends its responses as failed, once, whoever finds them first, and nothing of what their clients
// have received is lost.
func TestResumeAfterKill(t *testing.T) { bed.EitherSuite(t, testResumeAfterKill) }

func testResumeAfterKill(t *testing.T, suite string) {
	b := bed.New(t, suite, bed.RealWorker, bed.Patient)
	b.Start()
	first := stream(b, "[[text one ]][[silence]]", "one ")
	unread := b.Response(http.MethodPost, "", bed.InBackground(false, "[[text unread]][[silence]]"))
	ctx, cancel := context.WithTimeout(t.Context(), bed.Bound)
	defer cancel()
	_, err := b.Models.Wait(ctx, modelserver.AtLeast(2))
	require.NoError(t, err)
	b.Signal(b.OnlyProcess(bed.ProxyUnit), unix.SIGKILL)
	begun := first.cut(t)

	var followers []func() []bed.WireEvent
	for range 16 { // all of them find it without an end
		followers = append(followers, resuming(b, first.id, begun[len(begun)-1].Number, bed.ToTheEnd))
	}
	got := slices.Concat(begun, followers[0]())
	for _, follower := range followers[1:] {
		assert.Equal(t, bed.Raw(got), bed.Raw(begun)+bed.Raw(follower()))
	}
	assertResponseFailed(b, first.id, got, bed.Abandoned)
	assertFailed(b.Poll(unread.ID), t, bed.Abandoned)

	status, answer := b.Called(http.MethodPost, "/"+first.id+"/cancel", "")
	assert.Equal(t, http.StatusBadRequest, status, string(answer))
	require.NoError(t, b.Models.Script("text fine"))
	next := stream(b, "next", "fine")
	assert.Equal(t, "response.completed", bed.AssertWhole(t, next.whole(t)).Kind)
	b.MustRun(t, "systemctl", "restart", bed.ProxyUnit)
	assertResponseFailed(b, first.id, got, bed.Abandoned)
}

// The process of before a reload dies: a client that follows in the next process learns it without a restart.
func TestResumeAfterKillOfThePredecessor(t *testing.T) {
	bed.EitherSuite(t, testResumeAfterKillOfThePredecessor)
}

func testResumeAfterKillOfThePredecessor(t *testing.T, suite string) {
	b := bed.New(t, suite, bed.RealWorker, "")
	b.Start()
	predecessor := b.OnlyProcess(bed.ProxyUnit)
	first := stream(b, "[[text one ]][[silence]]", "one ")
	b.MustRun(t, "systemctl", "reload", bed.ProxyUnit)
	got := resumed(b, first.id, -1, toText("one "))
	rest := resuming(b, first.id, got[len(got)-1].Number, bed.ToTheEnd)
	b.Signal(predecessor, unix.SIGKILL)
	died := b.AwaitDeath(predecessor)
	got = append(got, rest()...)
	t.Logf("the follower has the end %s after the death", time.Since(died).Round(time.Millisecond))
	assertResponseFailed(b, first.id, got, bed.Abandoned)
	assert.True(t, len(first.cut(t)) <= len(got))
	assert.NotEqual(t, predecessor.Inside, b.OnlyProcess(bed.ProxyUnit).Inside)
}

// A response is cancelled by any process, whichever of them runs its turn.
func TestCancelAcrossAReload(t *testing.T) { bed.EitherSuite(t, testCancelAcrossAReload) }

func testCancelAcrossAReload(t *testing.T, suite string) {
	b := bed.New(t, suite, bed.RealWorker, "")
	b.Start()
	first := stream(b, "[[text one ]][[silence]]", "one ")
	before := b.ProxyPID()
	b.MustRun(t, "systemctl", "reload", bed.ProxyUnit)
	require.NotEqual(t, before, b.ProxyPID())
	rest := resuming(b, first.id, 0, bed.ToTheEnd)
	for range 2 {
		assert.Equal(t, "cancelled", b.Response(http.MethodPost, "/"+first.id+"/cancel", "").Status)
	}
	got := first.whole(t)
	last := bed.AssertWhole(t, got)
	assert.Equal(t, "cancelled", last.Answer.Status)
	assert.Equal(t, bed.Raw(got[1:]), bed.Raw(rest()))
	assert.Equal(t, "cancelled", b.Poll(first.id).Status)
	ctx, cancel := context.WithTimeout(t.Context(), bed.Bound)
	defer cancel()
	_, err := b.Models.Wait(ctx, modelserver.CutAtLeast(1))
	require.NoError(t, err, "the turn goes on")
	bed.AwaitSole(b)
	assertSame(b, first.id, got)
	bed.AssertSmooth(b)
}
