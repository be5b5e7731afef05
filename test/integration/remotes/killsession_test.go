package remotes

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"codex-proxy/test/bed"
	"codex-proxy/test/machine"
	"codex-proxy/test/modelserver"
)

// killSession is a remote with a person in front of it, whose every message has a mark.
type killSession struct {
	k          *remoteKills
	r          bed.Remote
	term       *bed.Terminal
	terms      int
	thread     string
	asked      []string // its messages
	interrupts bool     // its person interrupts turns
}

// attach is the person's codex, in a new terminal.
func (s *killSession) attach() {
	s.terms++
	s.term = bed.NewTerminal(s.k.Bed, fmt.Sprintf("%s-%d", s.r.Name, s.terms), "sh", "-c",
		"codex-proxy attach "+s.r.Name+"; echo attach ends with $?; exec sleep 987") // which shows why
	s.term.Tmux("pipe-pane", "-t", s.term.Name, "cat >>"+s.painted())
	s.term.Until("Ask Codex to do anything")
}

// painted is the file of all that the terminal was ever given.
func (s *killSession) painted() string { return "/tmp/" + s.term.Name }

// hangUp ends the terminal with what runs in it.
func (s *killSession) hangUp() { s.term.Tmux("kill-session", "-t", s.term.Name) }

// cutSocket shuts the people's connections down, as the kernel does at the end of a peer.
func (s *killSession) cutSocket() {
	t := s.k.T
	keeper := s.process("remote-exec")
	table, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/unix", keeper.Host))
	require.NoError(t, err)
	sockets := map[string]bool{}
	for line := range strings.Lines(string(table)) {
		// Num RefCount Protocol Flags Type St Inode Path; the flag is that of a listener.
		if f := strings.Fields(line); len(f) == 8 && f[7] == "/run/codex-remote/"+s.r.Name+".sock" && f[3] != "00010000" {
			sockets["socket:["+f[6]+"]"] = true
		}
	}
	require.NotEmpty(t, sockets, "the TUI is connected")
	process, err := unix.PidfdOpen(keeper.Host, 0)
	require.NoError(t, err)
	defer unix.Close(process)
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", keeper.Host))
	require.NoError(t, err)
	for _, f := range files {
		link, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", keeper.Host, f.Name()))
		if !sockets[link] {
			continue
		}
		var number int
		_, err := fmt.Sscan(f.Name(), &number)
		require.NoError(t, err)
		fd, err := unix.PidfdGetfd(process, number, 0)
		require.NoError(t, err)
		require.NoError(t, unix.Shutdown(fd, unix.SHUT_RDWR))
		require.NoError(t, unix.Close(fd))
	}
}

// process is one of the remote's, by a part of its command.
func (s *killSession) process(part string) machine.Process {
	s.k.T.Helper()
	processes, err := s.k.Processes(s.r.Unit)
	require.NoError(s.k.T, err)
	for _, p := range processes {
		if strings.Contains(p.Command, part) && (part != "app-server" || strings.HasPrefix(p.Command, "/run/codex-remote-run/")) {
			return p
		}
	}
	require.Fail(s.k.T, "no "+part, "%+v", processes)
	return machine.Process{}
}

// killTurn is a turn that a fault hits.
type killTurn struct {
	*killSession
	kind     killKind
	mark     string
	moment   string // where the fault hits it
	esc      bool   // its person has interrupted it before the fault
	requests int    // of the turn, before the fault
	codex    machine.Process
	at, end  time.Time // of the fault, and of codex
}

func (c *killTurn) String() string {
	moment := c.moment
	if c.esc {
		moment = "interrupted"
	}
	return fmt.Sprintf("%s (%s)", c.mark, moment)
}

func (c *killTurn) message() string { return "ask-" + c.mark }

// begin types a message, and returns in mid-turn: as soon as the main process has recorded the message or some time later, while
// the model writes, or while a tool runs.
func (s *killSession) begin(kind killKind) *killTurn {
	t := s.k.T
	t.Helper()
	c := &killTurn{killSession: s, kind: kind, mark: fmt.Sprintf("%s-%03d", s.r.Name, len(s.asked)),
		moment: []string{"early", "words", "tool"}[s.k.random.IntN(3)]}
	c.esc = s.interrupts && kind.cuts && s.k.random.IntN(2) == 0
	if c.esc || c.kind.all != nil && c.moment == "early" {
		c.moment = "words"
	}
	s.script(c)
	s.term.Enter(c.message())
	s.asked = append(s.asked, c.message())
	switch c.moment {
	case "early":
		s.untilRecorded(func(text string) bool { return strings.Contains(text, c.message()) })
		bed.Pause(t.Context(), time.Duration(s.k.random.IntN(200))*time.Millisecond)
	case "words":
		c.untilAsked(modelserver.AtGate(c.mark, 1))
		s.term.Until("begin-" + c.mark)
	case "tool":
		deadline := time.Now().Add(bed.Bound)
		for {
			if _, err := s.k.ReadFile("/srv/" + s.r.Name + "/began-" + c.mark); err == nil {
				break
			}
			require.True(t, time.Now().Before(deadline), "the tool does not run")
			bed.Pause(t.Context(), 5*time.Millisecond)
		}
	}
	if c.esc {
		s.term.Tmux("send-keys", "-t", s.term.Name, "Escape")
		s.untilRecorded(func(text string) bool {
			return strings.Contains(text, `"interrupted"`) || !strings.Contains(text, `"threads"`) // it has ended by now
		})
		bed.Pause(t.Context(), time.Duration(s.k.random.IntN(30))*time.Millisecond)
	}
	return c
}

// script is what the model does in a turn. The newest script whose word a request has counts: the title that the TUI asks
// for in a thread of its own has one, and what comes after the call of the tool.
func (s *killSession) script(c *killTurn) {
	words := []string{"text begin-" + c.mark + " ", "gate " + c.mark, "text done-" + c.mark}
	first, then := c.message(), "began-"+c.mark
	scripts := []modelserver.Script{{Word: first, Times: -1, Steps: words}}
	if c.moment == "tool" {
		call, err := json.Marshal(map[string]any{"yield_time_ms": 30_000,
			"cmd": fmt.Sprintf("touch %s; while [ ! -e end-%s ]; do sleep 0.05; done", then, c.mark)})
		require.NoError(s.k.T, err)
		scripts = []modelserver.Script{{Word: first, Times: -1, Steps: []string{"call exec_command " + string(call)}},
			{Word: then, Times: -1, Steps: words}}
	}
	title := modelserver.Script{Word: "single-line task title", Times: -1, Steps: []string{`text {"title":"Kill and see"}`}}
	require.NoError(s.k.T, s.k.Models.Add(append(scripts, title)...))
}

// untilRecorded waits until the main process has written something.
func (s *killSession) untilRecorded(ok func(text string) bool) {
	s.k.T.Helper()
	deadline := time.Now().Add(bed.Bound)
	for {
		b, err := s.k.ReadFile(s.r.Home + "/keeper/turns.json")
		if err == nil && ok(string(b)) {
			return
		}
		require.True(s.k.T, time.Now().Before(deadline), "%s %v", b, err)
		bed.Pause(s.k.T.Context(), time.Millisecond)
	}
}

func (c *killTurn) untilAsked(enough func([]modelserver.Request) bool) {
	c.k.T.Helper()
	ctx, cancel := context.WithTimeout(c.k.T.Context(), bed.Bound)
	defer cancel()
	_, err := c.k.Models.Wait(ctx, enough)
	require.NoError(c.k.T, err, "%s: %s", c, c.kind.name)
}

// watch is before the fault.
func (c *killTurn) watch() {
	c.requests = len(c.turns())
	c.codex = c.process("app-server")
}

func (c *killTurn) hit(fault func()) {
	c.watch()
	at := time.Now()
	fault()
	c.hitAt(at)
}

func (c *killTurn) hitAt(at time.Time) {
	c.at, c.end = at, at
	if c.kind.cuts {
		c.end = c.k.AwaitDeath(c.codex)
	}
}

// goesOn lets the turn end, as soon as what the fault has cut is gone, and waits for its last words on the screen.
func (c *killTurn) goesOn() {
	if c.kind.detaches {
		if c.kind.all != nil {
			c.at = time.Now()
		}
		c.attach()
	}
	if c.kind.cuts && !c.esc {
		c.untilAsked(func([]modelserver.Request) bool { return len(c.after()) > 0 })
		c.k.took[c.kind.name] = append(c.k.took[c.kind.name], c.after()[0].At.Sub(c.at))
	}
	c.k.Models.Release(c.mark)
	require.NoError(c.k.T, c.k.WriteFile("/srv/"+c.r.Name+"/end-"+c.mark, nil, 0o644))
	if c.esc {
		c.term.Until("› " + c.message()) // a TUI that has just come paints its history after its composer
	} else {
		c.term.Until("done-" + c.mark)
	}
	untilIdle(c.k.Bed, c.r)
	if c.esc && !c.kind.detaches {
		c.back()
	}
	c.k.MustRun(c.k.T, "systemctl", "reset-failed", c.r.Unit) // the next fault is as the first one
}

// back waits until the person's codex has reconnected: what a person sends before that stays a draft. The last words of a
// turn show it, too, but an interrupted turn has none.
func (c *killTurn) back() {
	c.k.T.Helper()
	untilRemote(c.k.Bed, c.r, func(l listedRemote) bool { return len(l.Attached) > 0 })
	untilGone(c.term, "Reconnecting to server")
}

// turns are the requests of this turn to the model.
func (c *killTurn) turns() (list []modelserver.Request) {
	for _, r := range c.k.Models.Turns() {
		if texts := personTexts(r); len(texts) > 0 && texts[len(texts)-1] == c.message() {
			list = append(list, r)
		}
	}
	return list
}

// after are those of the next codex, if the fault ended one.
func (c *killTurn) after() []modelserver.Request {
	return slices.DeleteFunc(c.turns(), func(r modelserver.Request) bool { return r.At.Before(c.end) })
}

// ids are codex's of the turns that requests belong to: codex repeats a request whose stream breaks.
func ids(turns []modelserver.Request) (ids []string) {
	for _, r := range turns {
		var metadata struct {
			Turn string `json:"turn_id"`
		}
		_ = json.Unmarshal([]byte(r.Header.Get("X-Codex-Turn-Metadata")), &metadata)
		if !slices.Contains(ids, metadata.Turn) {
			ids = append(ids, metadata.Turn)
		}
	}
	return ids
}

// times says when requests came, and how they ended.
func times(turns []modelserver.Request) (text string) {
	for _, r := range turns {
		text += fmt.Sprintf("\n%d at %s, finished %s, cut %s: %s", r.ID, r.At, r.Finished, r.Cut, r.Header.Get("X-Codex-Turn-Metadata"))
	}
	return text
}

// personTexts are the messages of the person in a request to the model.
func personTexts(r modelserver.Request) (texts []string) {
	for _, raw := range r.Body.Input {
		var i struct {
			Role    string
			Content []struct{ Text string }
		}
		if json.Unmarshal(raw, &i) == nil && i.Role == "user" {
			for _, part := range i.Content {
				if strings.HasPrefix(part.Text, "ask-") {
					texts = append(texts, part.Text)
				}
			}
		}
	}
	return texts
}

// findings are assertions that do not hold. The end of a log is what is read first, and the machine's own words come before.
type findings []string

func (f *findings) Errorf(format string, args ...any) { *f = append(*f, fmt.Sprintf(format, args...)) }

// account says what is wrong with what became of the turn.
func (c *killTurn) account() (wrong findings) {
	t := &wrong
	why := fmt.Sprintf("%s, %s", c, c.kind.name)
	turns := c.turns()
	switch {
	case c.esc:
		assert.Equal(t, c.requests, len(turns), "%s: what its person interrupted does not go on: %s", why, times(turns))
	case c.kind.cuts:
		assert.Len(t, ids(c.after()), 1, "%s: it goes on once: %s, %s", why, c.end, times(turns))
	default:
		assert.Len(t, ids(turns), 1, "%s: nothing is cut: %s", why, times(turns))
	}
	if len(turns) > 0 {
		assert.Equal(t, c.asked, personTexts(turns[len(turns)-1]), "%s: what the model has", why)
	}
	screen := c.term.Screen()
	assert.Equal(t, 1, strings.Count(screen, "› "+c.message()), "%s: the message is on the screen once\n%s", why, screen)
	if !c.interrupts {
		painted, err := c.k.ReadFile(c.painted())
		require.NoError(c.k.T, err)
		assert.NotContains(t, strings.ToLower(string(painted)), "interrupted", why)
	}
	c.accountHistory(t, why)
	return wrong
}

func (c *killTurn) accountHistory(t *findings, why string) {
	p := attach(c.r)
	defer p.Close(nil)
	var ledger struct {
		Last string `json:"last"`
	}
	b, err := c.k.ReadFile(c.r.Home + "/keeper/turns.json")
	require.NoError(c.k.T, err)
	require.NoError(c.k.T, json.Unmarshal(b, &ledger))
	if c.thread == "" {
		c.thread = ledger.Last
	}
	assert.Equal(t, c.thread, ledger.Last, "%s: it is one conversation", why)
	had := p.history(c.thread, func(status string) {
		if !c.interrupts {
			assert.Equal(t, "completed", status, why)
		}
	})
	assert.Equal(t, c.asked, had, "%s: the history", why)
}

// history returns the messages of the people in a thread.
func (p *person) history(thread string, status func(string)) (had []string) {
	p.T.Helper()
	var page turnsPage
	for n := 0; n == 0 || page.Next != ""; n++ {
		params := map[string]any{"threadId": thread, "limit": 100, "sortDirection": "asc", "itemsView": "full"}
		if page.Next != "" {
			params["cursor"] = page.Next
		}
		page = turnsPage{}
		p.call("thread/turns/list", params, &page)
		for _, turn := range page.Turns {
			status(turn.Status)
			for _, i := range turn.Items {
				if i.Type == "userMessage" {
					for _, part := range i.Content { // several if codex had lost several
						had = append(had, part.Text)
					}
				}
			}
		}
	}
	return had
}

// turnsPage is a part of a thread's history.
type turnsPage struct {
	Turns []struct {
		Status string `json:"status"`
		Items  []struct {
			Type    string `json:"type"`
			Content []struct {
				Text string `json:"text"`
			} `json:"content"`
		} `json:"items"`
	} `json:"data"`
	Next string `json:"nextCursor"`
}
