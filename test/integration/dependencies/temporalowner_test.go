package dependencies

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/bed"
)

// While a server runs, a second one on its database or its port is refused, with the name of the one that runs.
func TestTemporalOwner(t *testing.T) {
	bed.EitherSuite(t, testTemporalOwner)
}

func testTemporalOwner(t *testing.T, suite string) {
	s := newTemporal(t, suite, "")
	s.Start()
	samePort := s.second("same-port", temporalAddr, "{state}/temporal.db", "")
	s.assertRefused(samePort, serverProcess(s.Dependency).Inside, "port 7233", s.Unit)
	assert.True(t, s.serving(t.Context(), temporalAddr))

	// What was refused starts when the holder is gone.
	stopDependency(s.Dependency)
	samePort.Start()
	stopDependency(samePort)

	// Two of one user have one directory.
	s.MustRun(t, "useradd", "--system", "temporal")
	s.MustRun(t, "install", "--directory", "--owner=temporal", "/srv/temporal")
	const shared = "user = \"temporal\"\ndirectories = [\"/srv/temporal\"]\nlock = \"/srv/temporal/.lock\"\n"
	first := s.second("first", "127.0.0.1:7243", "/srv/temporal/temporal.db", shared)
	sameFile := s.second("same-file", "127.0.0.1:7244", "/srv/temporal/temporal.db", shared)
	first.Start()
	s.assertRefused(sameFile, serverProcess(first).Inside, "the lock /srv/temporal/.lock", first.Unit)
	stopDependency(first)
	sameFile.Start()
	stopDependency(sameFile)

	// A server that was started by hand has the port, and then the file.
	_, stop := s.byHand(temporalAddr, "/var/tmp/by-hand.db")
	s.assertRefused(s.Dependency, s.handPID(), "port 7233")
	stop()
	s.Start()
	stopDependency(s.Dependency)
	_, stop = s.byHand("127.0.0.1:7243", s.State+"/temporal.db")
	s.assertRefused(s.Dependency, s.handPID(), s.State+"/temporal.db")
	stop()
	s.Start()
}

// second is another dependency with Temporal.
func (s temporal) second(name, address, file, settings string) bed.Dependency {
	s.T.Helper()
	host, port, _ := strings.Cut(address, ":")
	return bed.NewDependency(s.Bed, name, fmt.Sprintf(`command = [%q, "server", "start-dev", "--ip", %q, "--port", %q,
    "--headless", "--db-filename", %q]
ports = [%s]
%s[probe]
check = "grpc:%s"
`, temporalPath, host, port, file, port, settings, address))
}

// assertRefused asserts that a start fails at once, and names the process and the words.
func (s temporal) assertRefused(d bed.Dependency, pid int, words ...string) {
	s.T.Helper()
	now := refused(d)
	s.T.Logf("%s: %v", d.Unit, now)
	assert.Equal(s.T, "failed", now["ActiveState"])
	assert.Equal(s.T, "75", now["ExecMainStatus"])
	assert.Equal(s.T, "0", now["NRestarts"])
	for _, word := range append(words, fmt.Sprintf("pid %d", pid), temporalPath+" server start-dev") {
		assert.Contains(s.T, now["StatusText"], word)
		assert.Contains(s.T, d.UnitJournal(d.Unit), word)
	}
	assert.Empty(s.T, serverProcesses(d))
}

// handPID is the process of the server that byHand started.
func (s temporal) handPID() int {
	s.T.Helper()
	processes, err := s.Processes("init.scope")
	require.NoError(s.T, err)
	for _, p := range processes {
		if strings.HasPrefix(p.Command, temporalPath+" server") {
			return p.Inside
		}
	}
	require.Fail(s.T, "no server was started by hand")
	return 0
}

// The lock is held exactly while the server runs: a file that a killed one left locks nothing, each stop releases it,
// and of eight starts at a time there is one server.
func TestTemporalLock(t *testing.T) {
	bed.EitherSuite(t, testTemporalLock)
}

func testTemporalLock(t *testing.T, suite string) {
	s := newTemporal(t, suite, "")
	for range 3 {
		s.Start()
		assert.True(t, s.locked())
		stopDependency(s.Dependency)
		assert.False(t, s.locked())
	}
	s.Start()
	processes, err := s.Processes(s.Unit)
	require.NoError(t, err)
	s.MustRun(t, "systemctl", "mask", "--runtime", s.Unit) // no restart
	s.KillAll(processes)
	for _, p := range processes {
		s.AwaitDeath(p)
	}
	s.UntilShow(s.Unit, "MainPID", "0")
	assert.False(t, s.locked(), "the kernel releases the lock of a killed process")
	s.MustRun(t, "systemctl", "unmask", "--runtime", s.Unit)
	s.MustRun(t, "systemctl", "stop", s.Unit)
	s.startEightTimes()
	assert.True(t, s.locked())
	serverProcess(s.Dependency)
	assert.Equal(t, "0", s.Properties(s.Unit, "NRestarts")["NRestarts"])
}

// locked reports whether a process holds the lock.
func (s temporal) locked() bool {
	s.T.Helper()
	_, _, err := s.Run(s.T.Context(), "flock", "--nonblock", s.State+"/.lock", "true")
	return err != nil
}

func (s temporal) startEightTimes() {
	var starts sync.WaitGroup
	for range 8 {
		starts.Go(func() {
			_, _, err := s.Run(s.T.Context(), "systemctl", "start", s.Unit)
			assert.NoError(s.T, err)
		})
	}
	starts.Wait()
}
