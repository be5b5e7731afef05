package remotes

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"codex-proxy/test/bed"
	"codex-proxy/test/machine"
)

const (
	// killsEnv is how many turns TestRemoteKills has each kind of fault hit, killsSeedEnv its seed.
	killsEnv     = "CODEX_PROXY_TEST_REMOTE_KILLS"
	killsSeedEnv = "CODEX_PROXY_TEST_REMOTE_KILLS_SEED"
	// killSessions is how many remotes are hit side by side.
	killSessions = 3
)

// killKind is a kind of fault in mid-turn: of one session, or of all.
type killKind struct {
	name     string
	one      func(*killSession)
	all      func(*remoteKills)
	cuts     bool // codex ends
	detaches bool // the TUI ends
}

var killKinds = []killKind{
	{name: "kill -9 of codex", cuts: true, one: func(s *killSession) { kill(s.r, "codex") }},
	{name: "kill -9 of the main process", cuts: true, one: func(s *killSession) { kill(s.r, "main process") }},
	{name: "kill -9 of the unit's cgroup", cuts: true, one: func(s *killSession) { kill(s.r, "all") }},
	{name: "cut of the socket", one: (*killSession).cutSocket},
	{name: "SIGHUP of the TUI", detaches: true, one: (*killSession).hangUp},
	{name: "kill -9 of codex-proxy", all: (*remoteKills).killProxy},
	{name: "reload of codex-proxy", all: (*remoteKills).reload},
	{name: "upgrade of the package", all: (*remoteKills).upgrade},
	{name: "restart of the unit", cuts: true, all: (*remoteKills).restart},
	{name: "power cut", cuts: true, detaches: true, all: func(k *remoteKills) { reboot(k.Bed, false) }},
	{name: "shutdown", cuts: true, detaches: true, all: func(k *remoteKills) { reboot(k.Bed, true) }},
}

// remoteKills are remotes, with a person in front of each, that all kinds of faults hit in mid-turn.
type remoteKills struct {
	*bed.Bed
	random   *rand.Rand
	packages []string // two versions
	whole    bool     // the table is to be complete, whatever fails
	sessions []*killSession
	took     map[string]bed.Sample // from the fault to the model's next request
	wrong    findings              // of all rounds
}

// In mid-turn, whatever ends: the conversation goes on without a key, after a reboot after an attach. No message is lost
// or comes twice, what a person has interrupted does not go on, and nothing is shown as interrupted.
func TestRemoteKills(t *testing.T) { bed.BothSuites(t, testRemoteKills) }

func testRemoteKills(t *testing.T, suite string) {
	times, seed := 1, rand.Uint64()
	if text := os.Getenv(killsEnv); text != "" {
		n, err := strconv.Atoi(text)
		require.NoError(t, err, killsEnv)
		times = (n + killSessions - 1) / killSessions
	}
	if text := os.Getenv(killsSeedEnv); text != "" {
		var err error
		seed, err = strconv.ParseUint(text, 10, 64)
		require.NoError(t, err, killsSeedEnv)
	}
	t.Logf("%s=%d", killsSeedEnv, seed)
	var k *remoteKills
	t.Cleanup(func() { // the last of all
		if k != nil && len(k.wrong) > 0 {
			t.Log(strings.Join(k.wrong, "\n"))
		}
	})
	k = newRemoteKills(t, suite, seed)
	k.whole = os.Getenv(killsEnv) != ""
	var singles, rounds []killKind
	for _, kind := range killKinds {
		for range times {
			if rounds = append(rounds, kind); kind.one != nil {
				singles = append(singles, kind)
			}
		}
	}
	k.random.Shuffle(len(rounds), func(i, j int) { rounds[i], rounds[j] = rounds[j], rounds[i] })
	decks := make([][]int, len(k.sessions))
	for i := range decks {
		decks[i] = k.random.Perm(len(singles))
	}
	for n, kind := range rounds {
		kinds := make([]killKind, len(k.sessions))
		for i := range kinds {
			if kinds[i] = kind; kind.one != nil {
				kinds[i], decks[i] = singles[decks[i][0]], decks[i][1:]
			}
		}
		k.round(n, kinds)
	}
	for name, took := range k.took {
		t.Logf("%s: %s: the model is asked again after %s", suite, name, took)
		if k.whole {
			t.Logf("%s: %s: %d of %d within 2 s", suite, name, within(took, 2*time.Second), len(took))
		}
	}
}

// within counts those up to d.
func within(s bed.Sample, d time.Duration) (n int) {
	for _, took := range s {
		if took <= d {
			n++
		}
	}
	return n
}

func newRemoteKills(t *testing.T, suite string, seed uint64) *remoteKills {
	t.Helper()
	bed.RequireCodex(t)
	b := bed.BootWith(t, machine.Debian(suite, "tmux"), machine.Options{Disk: t.TempDir()})
	b.Install(bed.RealWorker, "")
	b.MustRun(t, "ln", "-s", bed.CodexDir+"/bin/codex", "/usr/local/bin/codex")
	require.NoError(t, b.WriteFile("/root/.codex/config.toml", []byte(personalSettings), 0o600))
	b.Start()
	k := &remoteKills{Bed: b, random: rand.New(rand.NewPCG(seed, 0)), took: map[string]bed.Sample{}}
	now := bed.AptGet()
	k.packages = []string{now.Now, bed.WithNext(t, now, "etc/codex-proxy/config.toml").Next}
	for n := range killSessions {
		s := &killSession{k: k, r: bed.NewRemote(b, fmt.Sprintf("r%d", n), "", ""), interrupts: n == killSessions-1}
		b.MustRun(t, "systemctl", "enable", s.r.Socket)
		s.attach()
		k.sessions = append(k.sessions, s)
	}
	return k
}

// personalSettings are of a person whose TUI has asked its first questions.
const personalSettings = `check_for_update_on_startup = false
projects."/".trust_level = "trusted"
[tui]
screen_reader_detection_done = true
`

// round has each session in mid-turn, hits it, and looks what became of it.
func (k *remoteKills) round(n int, kinds []killKind) {
	at, began := time.Now(), make([]*killTurn, len(k.sessions))
	for i, s := range k.sessions {
		began[i] = s.begin(kinds[i])
		k.T.Logf("round %d: %s: %s", n, began[i], kinds[i].name)
		if kinds[i].one != nil {
			began[i].hit(func() { kinds[i].one(s) })
		}
	}
	if all := kinds[0].all; all != nil {
		for _, turn := range began {
			turn.watch()
		}
		at := time.Now()
		all(k)
		for _, turn := range began {
			turn.hitAt(at)
		}
	}
	for _, turn := range began {
		turn.goesOn()
	}
	var wrong findings
	for _, turn := range began {
		wrong = append(wrong, turn.account()...)
	}
	if len(wrong) == 0 {
		return
	}
	k.wrong = append(k.wrong, wrong...)
	journal, err := k.Journal(k.T.Context(), "--output=short-monotonic", fmt.Sprintf("--since=@%d", at.Unix()))
	k.T.Logf("round %d: %v\n%s", n, err, journal)
	if k.T.Fail(); !k.whole {
		k.T.FailNow() // with what the machine has to say now
	}
}

func (k *remoteKills) killProxy() {
	pid, err := k.MainPID(k.T.Context(), bed.ProxyUnit)
	require.NoError(k.T, err)
	require.NoError(k.T, unix.Kill(pid, unix.SIGKILL))
	k.AwaitDeath(machine.Process{Host: pid})
}

func (k *remoteKills) reload() { k.MustRun(k.T, "systemctl", "reload", bed.ProxyUnit) }

// upgrade installs the version that is not installed.
func (k *remoteKills) upgrade() {
	k.packages[0], k.packages[1] = k.packages[1], k.packages[0]
	path := "/var/cache/packages/" + filepath.Base(k.packages[0])
	require.NoError(k.T, k.CopyIn(k.packages[0], path))
	bed.MustPrint(k.Bed, "dpkg", "--force-confold", "--install", path)
}

// restart has the remotes run the program that is installed.
func (k *remoteKills) restart() {
	for _, s := range k.sessions {
		k.MustRun(k.T, "systemctl", "--no-block", "restart", s.r.Unit)
	}
}
