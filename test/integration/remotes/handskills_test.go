package remotes

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"codex-proxy/runner/paths"
	"codex-proxy/test/bed"
	"codex-proxy/test/machine"
	"codex-proxy/test/modelserver"
)

// handsKill is a kind of fault in mid-command: of one remote, or of all.
type handsKill struct {
	name string
	one  func(handsBed)
	all  func(*handsKills)
	ends bool // the command ends with it
	cuts bool // codex ends
	down bool // the machine ends
}

// The relay, the manager and the proxy of people are parts of the main process.
var handsKillKinds = []handsKill{
	{name: "kill -9 of the hands", ends: true, one: handsBed.killHands},
	{name: "kill -9 of the exec-server", ends: true, one: handsBed.killExecServer},
	{name: "kill -9 of codex", ends: true, cuts: true, one: func(h handsBed) { kill(h.Remote, "codex") }},
	{name: "kill -9 of the main process", ends: true, cuts: true,
		one: func(h handsBed) { kill(h.Remote, "main process") }},
	{name: "kill -9 of the unit's cgroup", ends: true, cuts: true, one: func(h handsBed) { kill(h.Remote, "all") }},
	{name: "kill -9 of codex-runner", all: func(k *handsKills) { k.killService("codex-runner.service") }},
	{name: "kill -9 of codex-proxy", all: func(k *handsKills) { k.killService(bed.ProxyUnit) }},
	{name: "power cut", ends: true, cuts: true, down: true, all: func(k *handsKills) { k.reboot(false) }},
	{name: "shutdown", ends: true, cuts: true, down: true, all: func(k *handsKills) { k.reboot(true) }},
}

func (h handsBed) killHands() {
	h.MustRun(h.T, "systemctl", "kill", "--kill-who=main", "--signal=KILL", h.unit())
}

func (h handsBed) killExecServer() {
	processes, err := h.Processes(h.unit())
	require.NoError(h.T, err)
	for _, p := range processes {
		if strings.Contains(p.Command, "codex exec-server ") {
			h.Signal(p, unix.SIGKILL)
			return
		}
	}
	require.Fail(h.T, "no exec-server", "%+v", processes)
}

// handsKills are remotes with hands that all kinds of faults hit in mid-command.
type handsKills struct {
	*bed.Bed
	random   *rand.Rand
	sessions []*handsSession
	took     map[string]bed.Sample // from the fault to the end of the turn
}

// handsSession is one of the remotes, with one thread.
type handsSession struct {
	handsBed
	k       *handsKills
	p       *person
	thread  string
	session string   // of codex-runner, all the time
	asked   []string // its messages
}

// In mid-command, whatever ends: the turn goes on, in the same workspace, no command runs twice, no message is lost,
// and no process is left.
func TestHandsKills(t *testing.T) { bed.EitherSuite(t, testHandsKills) }

func testHandsKills(t *testing.T, suite string) {
	times, seed := 0, rand.Uint64()
	for name, set := range map[string]func(uint64){
		killsEnv:     func(n uint64) { times = int(n+killSessions-1) / killSessions }, //nolint:gosec // small
		killsSeedEnv: func(n uint64) { seed = n },
	} {
		if text := os.Getenv(name); text != "" {
			n, err := strconv.ParseUint(text, 10, 64)
			require.NoError(t, err, name)
			set(n)
		}
	}
	t.Logf("%s=%d", killsSeedEnv, seed)
	k := newHandsKills(t, suite, seed)
	for n, kinds := range k.rounds(times) {
		k.round(n, kinds)
	}
	for name, took := range k.took {
		t.Logf("%s: %s: %d turns, each at its end after %s", suite, name, len(took), took)
	}
}

func newHandsKills(t *testing.T, suite string, seed uint64) *handsKills {
	t.Helper()
	b := bootHands(t, suite, machine.Options{Disk: t.TempDir()})
	b.MustRun(t, "systemctl", "enable", "--now", bed.ProxyUnit)
	k := &handsKills{Bed: b, random: rand.New(rand.NewPCG(seed, 0)), took: map[string]bed.Sample{}}
	for n := range killSessions {
		s := &handsSession{handsBed: addHands(b, fmt.Sprint("r", n)), k: k}
		b.MustRun(t, "systemctl", "enable", s.Socket)
		s.p = attach(s.Remote)
		s.thread = s.p.newThread()
		s.p.turn(s.handsBed, s.thread, "true")
		s.session = s.handsBed.session()
		k.sessions = append(k.sessions, s)
	}
	// A loss of power in the first second leaves no workspace.
	b.MustRun(t, "timeout", "300", "sh", "-c", fmt.Sprintf(
		"until [ $(cat /var/lib/codex-workspace/*/session | tr -cd + | wc -c) = %d ]; do sleep 0.1; done", len(paths.OnDisk)*killSessions))
	return k
}

// rounds have, for each of the remotes, the kind of its fault: each kind so many times in all of them, or by day, with
// 0, the kinds of one once in one of them, and two kinds of all.
func (k *handsKills) rounds(times int) (list [][]handsKill) {
	var ones []handsKill
	for _, kind := range handsKillKinds {
		byDay := kind.name == "power cut" || kind.name == "kill -9 of codex-runner"
		for range max(times, 1) {
			switch {
			case kind.one != nil && times > 0:
				ones = append(ones, slices.Repeat([]handsKill{kind}, killSessions)...)
			case kind.one != nil:
				ones = append(ones, kind)
			case times > 0 || byDay:
				list = append(list, slices.Repeat([]handsKill{kind}, killSessions))
			}
		}
	}
	k.random.Shuffle(len(ones), func(i, j int) { ones[i], ones[j] = ones[j], ones[i] })
	for chunk := range slices.Chunk(ones, killSessions) {
		list = append(list, chunk)
	}
	k.random.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list
}

// round has remotes in mid-command, hits them, and looks what became of their turns.
func (k *handsKills) round(n int, kinds []handsKill) {
	at := time.Now()
	turns := make([]*handsTurn, len(kinds))
	for i, kind := range kinds {
		turns[i] = k.sessions[i].begin(kind)
		k.T.Logf("round %d: %s: %s", n, turns[i].mark, kind.name)
	}
	for _, turn := range turns {
		turn.untilCommand()
	}
	bed.Pause(k.T.Context(), time.Duration(k.random.IntN(500))*time.Millisecond)
	if all := kinds[0].all; all != nil {
		for _, turn := range turns {
			turn.at = time.Now()
		}
		all(k)
	} else {
		for i, turn := range turns {
			turn.at = time.Now()
			kinds[i].one(turn.handsBed)
		}
	}
	failed := k.T.Failed()
	for _, turn := range turns {
		turn.goesOn()
	}
	for _, turn := range turns {
		turn.account()
	}
	if k.T.Failed() && !failed {
		journal, err := k.Journal(k.T.Context(), "--output=short-monotonic", fmt.Sprintf("--since=@%d", at.Unix()))
		k.T.Logf("round %d: %v\n%s", n, err, journal)
	}
}

func (k *handsKills) killService(unit string) {
	pid, err := k.MainPID(k.T.Context(), unit)
	require.NoError(k.T, err)
	require.NoError(k.T, unix.Kill(pid, unix.SIGKILL))
	k.AwaitDeath(machine.Process{Host: pid})
}

func (k *handsKills) reboot(shutdown bool) {
	reboot(k.Bed, shutdown)
	for _, s := range k.sessions {
		s.p = nil
	}
}

// handsTurn is a turn with a command that a fault hits.
type handsTurn struct {
	*handsSession
	kind    handsKill
	mark    string
	process string // a pattern that finds a process of the command
	at      time.Time
}

// begin has the model run a command that has a process outside of its own, and then one that counts what was run and
// what is left.
func (s *handsSession) begin(kind handsKill) *handsTurn {
	t := s.T
	t.Helper()
	number := fmt.Sprintf("54321%d%03d", s.Name[1]-'0', len(s.asked))
	c := &handsTurn{handsSession: s, kind: kind, mark: s.Name + "-" + number, process: "sleep 5432[1]" + number[5:]}
	first := fmt.Sprintf("echo x >>first-%[1]s; (setsid sleep %[2]s >/dev/null 2>&1 &); sleep %[2]s", c.mark, number)
	if !kind.ends {
		first = fmt.Sprintf("echo x >>first-%[1]s; sleep %[2]s & until [ -e end-%[1]s ]; do sleep 0.1; done; kill $!",
			c.mark, number)
	}
	second := fmt.Sprintf(`echo "second-%[1]s ran $(wc -l <first-%[1]s) left $(pgrep -c -f '%[2]s')"`, c.mark, c.process)
	call := func(script string) string {
		text, err := json.Marshal(map[string]any{"cmd": script, "login": false, "yield_time_ms": 30000})
		require.NoError(t, err)
		return "call exec_command " + string(text)
	}
	require.NoError(t, s.Models.Add(
		modelserver.Script{Word: "ask-" + c.mark, Times: -1, Steps: []string{call(first)}},
		modelserver.Script{Word: "first-" + c.mark, Times: -1, Steps: []string{call(second)}},
		modelserver.Script{Word: "second-" + c.mark, Times: -1, Steps: []string{"text done-" + c.mark}}))
	s.asked = append(s.asked, "ask-"+c.mark)
	s.p.say(s.thread, "ask-"+c.mark)
	return c
}

func (c *handsTurn) untilCommand() {
	c.MustRun(c.T, "timeout", "300", "sh", "-c", "until pgrep -f '"+c.process+"' >/dev/null; do sleep 0.05; done")
}

// goesOn waits until the turn has ended.
func (c *handsTurn) goesOn() {
	t := c.T
	t.Helper()
	if c.kind.down { // which starts the remote
		c.p = attach(c.Remote)
	}
	if !c.kind.ends {
		c.p.call("command/exec", map[string]any{"command": []string{"touch", "end-" + c.mark}}, nil)
	}
	_, err := c.Models.Wait(t.Context(), func(turns []modelserver.Request) bool { return c.counted(turns) != nil })
	require.NoError(t, err, "%s: %s", c.mark, c.kind.name)
	untilIdle(c.Bed, c.Remote)
	c.k.took[c.kind.name] = append(c.k.took[c.kind.name], time.Since(c.at))
	if c.kind.cuts && !c.kind.down { // codex has just begun to serve again
		c.p = attach(c.Remote)
	}
	if c.kind.cuts {
		c.p.call("thread/resume", map[string]any{"threadId": c.thread}, nil)
	}
}

// counted is what the second command has counted.
func (c *handsTurn) counted(turns []modelserver.Request) []string {
	pattern := regexp.MustCompile("second-" + c.mark + ` ran (\d+) left (\d+)`)
	for _, r := range slices.Backward(turns) {
		if found := pattern.FindStringSubmatch(string(r.Body.Raw)); found != nil {
			return found[1:]
		}
	}
	return nil
}

// account looks whether the command has run once, its processes have ended, and all messages are in the thread.
func (c *handsTurn) account() {
	t := c.T
	t.Helper()
	what := c.mark + ": " + c.kind.name
	assert.Equal(t, []string{"1", "0"}, c.counted(c.Models.Turns()),
		"%s: how often the command ran, and what is left of it", what)
	assert.Equal(t, c.session, c.handsBed.session(), "%s: the workspace", what)
	_, _, err := c.Run(t.Context(), "pgrep", "-f", c.process)
	require.Error(t, err, "%s: a process is left", what)
	assert.Equal(t, c.asked, c.messages(), "%s: the messages", what)
}

// messages are those of the person in the thread, as codex lists them, a page at a time.
func (c *handsTurn) messages() (asked []string) {
	c.T.Helper()
	for cursor := any(nil); ; {
		var r struct {
			Data []struct {
				Items []struct {
					Type    string `json:"type"`
					Content []struct {
						Text string `json:"text"`
					} `json:"content"`
				} `json:"items"`
			} `json:"data"`
			Next string `json:"nextCursor"`
		}
		c.p.call("thread/turns/list", map[string]any{"threadId": c.thread, "limit": 100, "sortDirection": "asc",
			"itemsView": "full", "cursor": cursor}, &r)
		for _, turn := range r.Data {
			for _, item := range turn.Items {
				if item.Type == "userMessage" && strings.HasPrefix(item.Content[0].Text, "ask-") {
					asked = append(asked, item.Content[0].Text)
				}
			}
		}
		if r.Next == "" {
			return asked
		}
		cursor = r.Next
	}
}
