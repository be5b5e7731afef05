package remotes_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/remotes"
	"codex-proxy/remotes/remoteapi"
	"codex-proxy/test/await"
	"codex-proxy/test/modelserver"
)

// userTexts are the user's messages of the test in a request to the model.
func userTexts(r modelserver.Request) (texts []string) {
	for _, raw := range r.Body.Input {
		var i struct {
			Role    string
			Content []struct{ Text string }
		}
		if json.Unmarshal(raw, &i) == nil && i.Role == "user" {
			for _, part := range i.Content {
				if strings.HasPrefix(part.Text, "message ") {
					texts = append(texts, part.Text)
				}
			}
		}
	}
	return texts
}

// A turn goes on, by itself, after each kill at any moment, and no message of the user is lost or comes twice.
func TestTurnsSurviveKills(t *testing.T) { testKills(t, 21, 1) }

// So it does if the kill is followed by another one, as the manager continues the turn.
func TestTurnsSurviveKillsInARow(t *testing.T) { testKills(t, 12, 3) }

// seed is that of the moments of kills: REMOTES_TEST_SEED, or 23.
func seed(t *testing.T) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(cmp.Or(os.Getenv("REMOTES_TEST_SEED"), "23"), 10, 64)
	require.NoError(t, err)
	return n
}

func testKills(t *testing.T, rounds, kills int) {
	u := startUnit(t)
	random := rand.New(rand.NewPCG(seed(t), uint64(kills)))
	c := u.attach()
	thread := c.newThread()
	require.NotEmpty(t, <-c.ask(thread, "first", "message first"))
	c.until("turn/completed")
	want := []string{"message first"}
	var worst time.Duration
	victims := []string{"codex", "keeper", "both"}
	for n := range rounds {
		what := victims[n%3]
		gate := fmt.Sprintf("gate-%d", n)
		id := fmt.Sprintf("id-%d", n)
		text := "message " + id
		steps := []string{"text one ", "gate " + gate, "text two"} // for all requests of the round: the newest word counts
		require.NoError(t, u.models.Add(modelserver.Script{Word: text, Times: -1, Steps: steps}))
		want = append(want, text)
		c.ask(thread, id, text)
		u.recorded(id)
		<-time.After(time.Duration(random.IntN(200)) * time.Millisecond) // any moment of the turn
		for range kills - 1 {
			u.kill(victims[random.IntN(3)])
			<-time.After(time.Duration(random.IntN(500)) * time.Millisecond)
		}
		before := len(u.models.Turns())
		u.kill(what)
		killed := time.Now()
		c.Close(nil)
		u.models.Release(gate)
		_, err := u.models.Wait(bound(t), modelserver.AtLeast(before+1))
		require.NoError(t, err, "round %d: the turn does not go on after the end of %s", n, what)
		took := time.Since(killed)
		worst = max(worst, took)
		u.status("the turn ends", idle)
		c = u.attach()
		c.resume(thread)
		turns := c.turns(thread)
		var had []string
		for _, turn := range turns {
			assert.Equal(t, "completed", turn.Status, "round %d: people see an interruption", n)
			for _, i := range turn.Items {
				if i.Type == "userMessage" {
					had = append(had, i.Content[0].Text)
				}
			}
		}
		require.Equal(t, want, had, "round %d (%s)", n, what)
		all := u.models.Turns()
		require.Equal(t, want, userTexts(all[len(all)-1]), "round %d (%s)", n, what)
		t.Logf("round %d: %s, the model is asked again after %s", n, what, took.Round(time.Millisecond))
	}
	log := u.log()
	t.Logf("worst: %s; %d turns went on, %d messages were sent again", worst,
		strings.Count(log, "a cut turn goes on"), strings.Count(log, "codex has lost a message"))
	assert.Less(t, worst, time.Minute) // with room for a busy machine
}

// A thread outlives codex before its first turn, and with it, once the manager has had codex write its file, some 100
// ms after thread/start.
func TestNewThreadsSurviveKills(t *testing.T) {
	u := startUnit(t)
	for n := range 6 {
		c := u.attach()
		thread := c.newThread()
		u.written(thread)
		id := fmt.Sprintf("id-%d", n)
		if n%2 == 0 {
			c.ask(thread, id, "message "+id)
			u.recorded(id)
		}
		<-time.After(time.Duration(n*10) * time.Millisecond)
		u.kill("codex")
		c.Close(nil)
		c = u.attach()
		u.status("nothing runs", idle)
		c.resume(thread)
		if n%2 == 1 {
			c.ask(thread, id, "message "+id)
			c.until("turn/completed")
		}
		all := u.models.Turns()
		assert.Equal(t, []string{"message " + id}, userTexts(all[len(all)-1]))
		c.Close(nil)
	}
}

// A message outlives even a thread that codex lost, because it was killed before it had a file of it.
func TestMessagesOutliveTheirThread(t *testing.T) {
	u := startUnit(t)
	for n := range 5 {
		c := u.attach()
		thread := c.newThread()
		id := fmt.Sprintf("id-%d", n)
		c.ask(thread, id, "message "+id)
		u.recorded(id)
		u.kill("codex")
		c.Close(nil)
		u.status("it ran", func(st remotes.Status) bool { return idle(st) && st.Last != "" && u.asked("message "+id) })
		last := u.status("idle", idle).Last
		c = u.attach()
		c.resume(last)
		all := u.models.Turns()
		assert.Equal(t, []string{"message " + id}, userTexts(all[len(all)-1]))
		t.Logf("round %d: in the same thread: %t", n, last == thread)
		c.Close(nil)
	}
}

// asked reports whether the model was asked with a message.
func (u *unit) asked(text string) bool {
	return slices.ContainsFunc(u.models.Turns(), func(r modelserver.Request) bool {
		return slices.Contains(userTexts(r), text)
	})
}

// The turn of a client that leaves as soon as codex has its message runs on: in a new thread, in one that was not
// loaded, and in one that the manager follows.
func TestTurnsOfClientsThatLeave(t *testing.T) {
	u := startUnit(t)
	c := u.attach()
	thread := c.newThread()
	for n := range 20 {
		switch n % 3 {
		case 1:
			u.kill("both")
			c.Close(nil)
			c = u.attach()
			c.resume(thread)
		case 2:
			thread = c.newThread()
		}
		id := fmt.Sprintf("id-%d", n)
		require.NoError(t, u.models.Add(modelserver.Script{Word: id, Steps: []string{"text one ", "gate " + id, "text two"}}))
		require.NotEmpty(t, <-c.ask(thread, id, "message "+id), "round %d", n)
		c.Close(nil)
		<-time.After(50 * time.Millisecond) // the thread could be unloaded
		u.models.Release(id)
		u.status("the turn ends", idle)
		c = u.attach()
		c.resume(thread)
		turns := c.turns(thread)
		assert.Equal(t, "completed", turns[len(turns)-1].Status, "round %d", n)
	}
}

// What its user has interrupted never goes on, however soon after the interrupt codex dies.
func TestInterruptsAreFinal(t *testing.T) {
	u := startUnit(t)
	random := rand.New(rand.NewPCG(seed(t), 2))
	c := u.attach()
	thread := c.newThread()
	for n := range 12 {
		gate := fmt.Sprintf("gate-%d", n)
		require.NoError(t, u.models.Script("text one ", "gate "+gate, "text two"))
		id := fmt.Sprintf("id-%d", n)
		before := len(u.models.Turns())
		turn := <-c.ask(thread, id, "message "+id)
		require.NotEmpty(t, turn)
		_, err := u.models.Wait(bound(t), modelserver.AtLeast(before+1))
		require.NoError(t, err)
		if n%3 == 2 {
			turn = "" // as the TUI does before it knows the turn
		}
		c.Post("turn/interrupt", map[string]any{"threadId": thread, "turnId": turn}, nil)
		u.recordedInterrupt()
		<-time.After(time.Duration(random.IntN(30)) * time.Millisecond)
		u.kill([]string{"codex", "keeper", "both"}[n%3])
		c.Close(nil)
		u.status("it is left", idle)
		<-time.After(150 * time.Millisecond)
		assert.Len(t, u.models.Turns(), before+1, "round %d: an interrupted turn went on", n)
		c = u.attach()
		c.resume(thread)
	}
}

func TestContinueAsks(t *testing.T) {
	u := startUnit(t, "REMOTES_TEST_CONTINUE=ask")
	c := u.attach()
	thread := c.newThread()
	require.NoError(t, u.models.Script("text one ", "gate never"))
	require.NotEmpty(t, <-c.ask(thread, "a", "message a"))
	c.until("item/agentMessage/delta")
	u.kill("codex")
	asked := func(st remotes.Status) bool { return len(st.Turns) == 1 && st.Turns[0].Cut }
	u.status("it asks", asked)
	c = u.attach()
	c.resume(thread)
	u.said(c, thread, "codex-proxy remotes continue build")
	u.kill("keeper")
	u.status("it still asks", asked)
	assert.Len(t, u.models.Turns(), 1)
	u.models.Release("never")
	at, err := remoteapi.ProceedTo(bound(t), u.socket, "")
	require.NoError(t, err)
	assert.Equal(t, thread, at)
	u.status("the turn ends", idle)
	require.Len(t, u.models.Turns(), 2)
	assert.Equal(t, []string{"message a"}, userTexts(u.models.Turns()[1]))
	_, err = remoteapi.ProceedTo(bound(t), u.socket, "")
	assert.EqualError(t, err, "no cut turn of the remote build waits to go on: codex-proxy remotes send build TEXT sends a message")
	_, err = remoteapi.ProceedTo(bound(t), u.socket, thread)
	assert.EqualError(t, err, remotes.ErrNotCut.Error())
}

func TestContinueNever(t *testing.T) {
	u := startUnit(t, "REMOTES_TEST_CONTINUE=never")
	c := u.attach()
	thread := c.newThread()
	require.NoError(t, u.models.Script("text one ", "gate never"))
	require.NotEmpty(t, <-c.ask(thread, "a", "message a"))
	c.until("item/agentMessage/delta")
	u.kill("codex")
	u.status("it is left", idle)
	c = u.attach()
	c.resume(thread)
	u.said(c, thread, `continue = "never" in the remote's file. A message goes on with its work.`)
	assert.Len(t, u.models.Turns(), 1)
}

// After three cuts the thread shows that, and no more.
func TestContinueLimit(t *testing.T) {
	u := startUnit(t)
	c := u.attach()
	thread := c.newThread()
	require.NoError(t, u.models.Always("", "text one ", "gate never"))
	require.NotEmpty(t, <-c.ask(thread, "a", "message a"))
	for n := range 4 {
		_, err := u.models.Wait(bound(t), modelserver.AtLeast(n+1))
		require.NoError(t, err)
		u.status("it runs", func(st remotes.Status) bool {
			return st.Codex != "" && len(st.Turns) == 1 && st.Turns[0].Continued == n
		})
		u.kill("codex")
	}
	st := u.status("it is left", idle)
	assert.Equal(t, 3, st.Continued)
	assert.Equal(t, 1, st.GivenUp)
	c = u.attach()
	c.resume(thread)
	u.said(c, thread, "went on 3 times")
	assert.Len(t, u.models.Turns(), 4)
}

func TestSend(t *testing.T) {
	u := startUnit(t)
	thread, err := remoteapi.SendTo(bound(t), u.socket, "", "message one")
	require.NoError(t, err)
	st := u.status("the turn ends", func(st remotes.Status) bool { return idle(st) && st.Words != "" })
	assert.Equal(t, thread, st.Last)
	assert.Equal(t, "hello from the model server", st.Words)
	again, err := remoteapi.SendTo(bound(t), u.socket, "", "message two")
	require.NoError(t, err)
	assert.Equal(t, thread, again)
	_, err = u.models.Wait(bound(t), modelserver.AtLeast(2))
	require.NoError(t, err)
	assert.Equal(t, []string{"message one", "message two"}, userTexts(u.models.Turns()[1]))
	u.status("the turn ends", idle)
	// A message that was sent before is there, while its turn runs and after it.
	require.NoError(t, u.models.Script("gate open"))
	for _, release := range []bool{false, true} {
		if release {
			u.models.Release("open")
			u.status("the turn ends", idle)
		}
		for range 2 {
			require.Equal(t, http.StatusOK, u.post("/keeper/send", `{"text":"message three","id":"three","again":true}`))
		}
		_, err = u.models.Wait(bound(t), modelserver.AtLeast(3))
		require.NoError(t, err)
	}
	assert.Equal(t, http.StatusConflict, u.post("/keeper/send", `{"text":"without an id"}`))
	_, err = remoteapi.SendTo(bound(t), u.socket, "", "message four")
	require.NoError(t, err)
	u.status("the turn ends", idle)
	turns := u.models.Turns()
	require.Len(t, turns, 4, "codex asks the model once for a message")
	assert.Equal(t, []string{"message one", "message two", "message three", "message four"}, userTexts(turns[3]))
	_, err = remoteapi.SendTo(bound(t), u.socket, "", " ")
	assert.EqualError(t, err, "the message is empty")
}

// A message that is sent while codex is killed arrives once: who sends it does not learn of the kill.
func TestSendThroughAKill(t *testing.T) {
	u := startUnit(t)
	thread, err := remoteapi.SendTo(bound(t), u.socket, "", "message one")
	require.NoError(t, err)
	u.status("the turn ends", func(st remotes.Status) bool { return idle(st) && st.Words != "" })
	random := rand.New(rand.NewPCG(seed(t), 0)) //nolint:gosec // moments
	want := []string{"message one"}
	for n := range 8 {
		want = append(want, fmt.Sprint("message ", n))
		sent := make(chan error, 1)
		go func() {
			_, err := remoteapi.SendTo(bound(t), u.socket, thread, want[len(want)-1])
			sent <- err
		}()
		<-time.After(time.Duration(random.IntN(60)) * time.Millisecond)
		u.kill("codex")
		require.NoError(t, <-sent)
	}
	u.status("the turns end", idle)
	before := len(u.models.Turns())
	_, err = remoteapi.SendTo(bound(t), u.socket, thread, "message end")
	require.NoError(t, err)
	turns, err := u.models.Wait(bound(t), modelserver.AtLeast(before+1))
	require.NoError(t, err)
	assert.Equal(t, append(want, "message end"), userTexts(turns[len(turns)-1]))
}

// A thread is found by its name, and a name that does not name one says what would.
func TestFind(t *testing.T) {
	u := startUnit(t)
	find := func(name string) (string, error) { return remoteapi.FindThread(bound(t), u.socket, name) }
	_, err := find("release 3")
	assert.EqualError(t, err, `no thread has the name "release 3": none has a name yet (/rename gives one)`)
	c := u.attach()
	var ids []string
	for _, name := range []string{"release 3", "a & b", "a & b"} {
		thread := c.newThread()
		require.NotEmpty(t, <-c.ask(thread, name, "hello"))
		u.status("the turn ends", idle)
		require.NoError(t, c.Call(bound(t), "thread/name/set", map[string]any{"threadId": thread, "name": name}, nil))
		ids = append(ids, thread)
	}
	for _, name := range []string{"release 3", ids[0]} {
		id, err := find(name)
		require.NoError(t, err)
		assert.Equal(t, ids[0], id)
	}
	_, err = find("a & b")
	assert.ErrorContains(t, err, `2 threads have the name "a & b"; give the id of one: `+ids[2]+", used 20")
	assert.ErrorContains(t, err, ids[1])
	_, err = find("relaese 3")
	assert.EqualError(t, err, `no thread has the name "relaese 3": there are a & b, release 3`)
	id, err := remoteapi.SendTo(bound(t), u.socket, "release 3", "by its name")
	require.NoError(t, err)
	assert.Equal(t, ids[0], id)
}

// An approval waits for its user: the manager never answers it, and reports that nobody is there.
func TestApprovalsWait(t *testing.T) {
	u := startUnit(t)
	c := u.attach()
	// Without a sandbox: codex takes a command that fails late in one for one that has failed of itself.
	thread := c.newThreadWith(map[string]any{"approvalPolicy": "untrusted", "sandbox": "danger-full-access"})
	require.NoError(t, u.models.Script(`call exec_command {"cmd":"touch `+u.dir+`/touched"}`))
	require.NotEmpty(t, <-c.ask(thread, "a", "message a"))
	waits := func(st remotes.Status) bool { return len(st.Turns) == 1 && !st.Turns[0].WaitingSince.IsZero() }
	st := u.status("the turn waits", waits)
	assert.Zero(t, st.Turns[0].AloneSince, "the tester is attached")
	assert.NotContains(t, u.log(), "a turn waits for a person")
	c.Close(nil)
	st = u.status("it waits alone", func(st remotes.Status) bool { return waits(st) && !st.Turns[0].AloneSince.IsZero() })
	assert.Empty(t, st.Attached)
	await.True(t, func() bool { return strings.Count(u.log(), "a turn waits for a person") == 1 }, time.Minute)
	c = u.attach()
	c.resume(thread)
	c.answer("item/commandExecution/requestApproval", map[string]any{"decision": "accept"})
	u.status("the turn ends", idle)
	assert.FileExists(t, u.dir+"/touched")
}

// A client's tool is the client's to answer, and the manager's when no client is attached.
func TestToolsOfClientsThatAreGone(t *testing.T) {
	u := startUnit(t)
	c := u.attach()
	thread := c.newThreadWith(map[string]any{"dynamicTools": []any{map[string]any{"type": "function", "name": "ask_me",
		"description": "asks", "inputSchema": map[string]any{"type": "object", "properties": map[string]any{}}}}})
	require.NoError(t, u.models.Script("call ask_me {}"))
	require.NotEmpty(t, <-c.ask(thread, "a", "message a"))
	c.answer("item/tool/call", map[string]any{"success": true, "contentItems": []any{
		map[string]any{"type": "inputText", "text": "from the client"}}})
	u.status("the turn ends", idle)
	assert.Contains(t, string(u.models.Turns()[1].Body.Raw), "from the client")

	require.NoError(t, u.models.Script("call ask_me {}"))
	require.NotEmpty(t, <-c.ask(thread, "b", "message b"))
	_, err := u.models.Wait(bound(t), modelserver.AtLeast(3))
	require.NoError(t, err)
	c.Close(nil)
	u.status("the turn ends without the client", idle)
	assert.Contains(t, string(u.models.Turns()[3].Body.Raw), "terminal is detached")
	assert.Equal(t, 1, strings.Count(u.log(), "the main process has answered a tool"))
}

func TestIdleStop(t *testing.T) {
	u := startUnit(t, "REMOTES_TEST_IDLE_STOP=1s")
	c := u.attach()
	thread := c.newThread()
	require.NoError(t, u.models.Script("gate open"))
	require.NotEmpty(t, <-c.ask(thread, "a", "message a"))
	c.Close(nil)
	<-time.After(2500 * time.Millisecond)
	assert.NoFileExists(t, u.dir+"/rests", "a turn runs")
	u.models.Release("open")
	require.Eventually(t, func() bool { _, err := os.Stat(u.dir + "/rests"); return err == nil }, 5*time.Minute,
		10*time.Millisecond)
}

// said waits until the thread shows a text to people.
func (u *unit) said(c *client, thread, text string) {
	u.t.Helper()
	require.Eventually(u.t, func() bool {
		for _, turn := range c.turns(thread) {
			for _, i := range turn.Items {
				if strings.Contains(i.Output, text) {
					return true
				}
			}
		}
		return false
	}, 20*time.Second, 20*time.Millisecond)
}

func (u *unit) recordedInterrupt() {
	u.t.Helper()
	require.Eventually(u.t, func() bool {
		st, err := remotes.ReadState(u.dir + "/keeper")
		return err == nil && (len(st.Turns) == 0 || u.ledgerHas(`"interrupted"`))
	}, 20*time.Second, time.Millisecond)
}
