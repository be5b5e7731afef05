package remotes

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"codex-proxy/test/bed"
	"codex-proxy/test/machine"
	"codex-proxy/test/modelserver"
)

const (
	// figureRounds is how often each figure is measured, in turn with the one that it is compared with.
	figureRounds = 7
	// commandsOfATurn are the commands of the turn whose time is measured.
	commandsOfATurn = 10
)

// handsFigures measures remotes with hands beside one whose codex executes the commands itself.
type handsFigures struct {
	*bed.Bed
	suite string
	turns int
	took  map[string]bed.Sample
}

// What hands cost: a log of figures with the load of the machine, and no verdict. `make bench-hands` prints them.
func TestHandsFigures(t *testing.T) { bed.Figures(t, testHandsFigures) }

func testHandsFigures(t *testing.T, suite string) {
	b := bootHands(t, suite, machine.Options{})
	b.MustRun(t, "sh", "-ec", `git clone -q /srv/app /srv/warm; cd /srv/warm
		git config user.name a; git config user.email a@example.org
		printf 'run = "touch made-by-the-set-up"\n' >.codex-runner.toml; git add .; git commit -qm second`)
	f := &handsFigures{Bed: b, suite: suite, took: map[string]bed.Sample{}}
	local := bed.NewRemote(b, "local", "", "")
	hands, warm := addHands(b, "build"), addHandsOf(b, "warm", "/srv/warm")
	f.commands(map[string]bed.Remote{"local": local, "hands": hands.Remote})
	f.output(map[string]bed.Remote{"local": local, "hands": hands.Remote})
	f.starts("codex's own start", local, func() {})
	f.starts("hands in the same session", hands.Remote, func() {})
	f.starts("hands in a new session, without a set-up", hands.Remote, hands.closeSession)
	f.starts("hands in a new session, warm set-up", warm.Remote, warm.closeSession)
	load, err := os.ReadFile("/proc/loadavg")
	require.NoError(t, err)
	for _, name := range slices.Sorted(maps.Keys(f.took)) {
		t.Logf("%s: %s: %s", suite, name, f.took[name])
	}
	t.Logf("%s: the load of the machine at the end: %s", suite, load)
}

// closeSession has the next start begin in a new one.
func (h handsBed) closeSession() {
	old := h.session()
	h.MustRun(h.T, "codex-runner", "cancel", old)
	untilClosed(h.Bed, old)
}

func untilClosed(b *bed.Bed, session string) {
	b.T.Helper()
	const look = "until codex-runner show $1 | grep -q ', closed, '; do sleep 0.05; done"
	b.MustRun(b.T, "timeout", "180", "sh", "-c", look, "sh", session)
}

// call is a step by which the model runs a command.
func call(t *testing.T, command string) string {
	t.Helper()
	text, err := json.Marshal(map[string]any{"cmd": command, "login": false, "yield_time_ms": 30000})
	require.NoError(t, err)
	return "call exec_command " + string(text)
}

// turn runs a turn of commands, one after the other, and returns how long it took.
func (f *handsFigures) turn(p *person, commands ...string) time.Duration {
	f.T.Helper()
	f.turns++
	word := fmt.Sprintf("turn-%d", f.turns)
	for n, command := range commands {
		next := fmt.Sprintf("%s-%d", word, n)
		step := call(f.T, command+"; : "+next+".")
		require.NoError(f.T, f.Models.Add(modelserver.Script{Word: word, Times: -1, Steps: []string{step}}))
		word = next + "."
	}
	require.NoError(f.T, f.Models.Add(modelserver.Script{Word: word, Times: -1, Steps: []string{"text done"}}))
	thread := p.newThread()
	at := time.Now()
	p.say(thread, fmt.Sprintf("turn-%d", f.turns))
	p.until("turn/completed")
	return time.Since(at)
}

func (f *handsFigures) commands(of map[string]bed.Remote) {
	people := f.people(of)
	commands := strings.Split(strings.Repeat("true ", commandsOfATurn), " ")[:commandsOfATurn]
	for range figureRounds {
		for name, p := range people {
			took := f.turn(p, commands...) / commandsOfATurn
			f.took["a command of a turn with ten, "+name] = append(f.took["a command of a turn with ten, "+name], took)
		}
	}
}

func (f *handsFigures) output(of map[string]bed.Remote) {
	people := f.people(of)
	for range 3 {
		for name, p := range people {
			took := f.turn(p, "head -c 100000000 /dev/zero | tr '\\0' x")
			f.took["100 MB of output, "+name] = append(f.took["100 MB of output, "+name], took)
		}
	}
}

// people attach, and each has run a first command.
func (f *handsFigures) people(of map[string]bed.Remote) map[string]*person {
	people := map[string]*person{}
	for name, r := range of {
		people[name] = attach(r)
		f.turn(people[name], "true")
	}
	return people
}

// starts measures the time from the attach to the end of a turn with one command, of a remote that does not run.
func (f *handsFigures) starts(name string, r bed.Remote, before func()) {
	f.turn(attach(r), "true")
	for range figureRounds {
		f.MustRun(f.T, "systemctl", "stop", r.Unit)
		before()
		at := time.Now()
		f.turn(attach(r), "true")
		figure := "start to the end of the first turn, " + name
		f.took[figure] = append(f.took[figure], time.Since(at))
	}
}
