package integration

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// While a server runs, a second one on its database or its port is refused, with the name of the one that runs.
func TestTemporalOwner(t *testing.T) {
	bothSuites(t, testTemporalOwner)
}

func testTemporalOwner(t *testing.T, suite string) {
	s := newTemporal(t, suite, "")
	s.start()
	samePort := s.second("same-port", temporalAddr, "{state}/temporal.db", "")
	s.assertRefused(samePort, s.server().Inside, "port 7233", s.unit)
	assert.True(t, s.serving(t.Context(), temporalAddr))

	// What was refused starts when the holder is gone.
	s.stop()
	samePort.start()
	samePort.stop()

	// Two of one user have one directory.
	s.MustRun(t, "useradd", "--system", "temporal")
	s.MustRun(t, "install", "--directory", "--owner=temporal", "/srv/temporal")
	const shared = "user = \"temporal\"\ndirectories = [\"/srv/temporal\"]\nlock = \"/srv/temporal/.lock\"\n"
	first := s.second("first", "127.0.0.1:7243", "/srv/temporal/temporal.db", shared)
	sameFile := s.second("same-file", "127.0.0.1:7244", "/srv/temporal/temporal.db", shared)
	first.start()
	s.assertRefused(sameFile, first.server().Inside, "the lock /srv/temporal/.lock", first.unit)
	first.stop()
	sameFile.start()
	sameFile.stop()

	// A server that was started by hand has the port, and then the file.
	_, stop := s.byHand(temporalAddr, "/var/tmp/by-hand.db")
	s.assertRefused(s.dependency, s.handPID(), "port 7233")
	stop()
	s.start()
	s.stop()
	_, stop = s.byHand("127.0.0.1:7243", s.state+"/temporal.db")
	s.assertRefused(s.dependency, s.handPID(), s.state+"/temporal.db")
	stop()
	s.start()
}

// second is another dependency with Temporal.
func (s temporal) second(name, address, file, settings string) dependency {
	s.t.Helper()
	host, port, _ := strings.Cut(address, ":")
	return s.bed.dependency(name, fmt.Sprintf(`command = [%q, "server", "start-dev", "--ip", %q, "--port", %q,
    "--headless", "--db-filename", %q]
ports = [%s]
%s[probe]
check = "grpc:%s"
`, temporalPath, host, port, file, port, settings, address))
}

// assertRefused asserts that a start fails at once, and names the process and the words.
func (s temporal) assertRefused(d dependency, pid int, words ...string) {
	s.t.Helper()
	now := d.refused()
	s.t.Logf("%s: %v", d.unit, now)
	assert.Equal(s.t, "failed", now["ActiveState"])
	assert.Equal(s.t, "75", now["ExecMainStatus"])
	assert.Equal(s.t, "0", now["NRestarts"])
	for _, word := range append(words, fmt.Sprintf("pid %d", pid), temporalPath+" server start-dev") {
		assert.Contains(s.t, now["StatusText"], word)
		assert.Contains(s.t, d.journal(d.unit), word)
	}
	assert.Empty(s.t, d.servers())
}

// handPID is the process of the server that byHand started.
func (s temporal) handPID() int {
	s.t.Helper()
	processes, err := s.Processes("init.scope")
	require.NoError(s.t, err)
	for _, p := range processes {
		if strings.HasPrefix(p.Command, temporalPath+" server") {
			return p.Inside
		}
	}
	require.Fail(s.t, "no server was started by hand")
	return 0
}

// The lock is held exactly while the server runs: a file that a killed one left locks nothing, each stop releases it,
// and of eight starts at a time there is one server.
func TestTemporalLock(t *testing.T) {
	bothSuites(t, testTemporalLock)
}

func testTemporalLock(t *testing.T, suite string) {
	s := newTemporal(t, suite, "")
	for range 3 {
		s.start()
		assert.True(t, s.locked())
		s.stop()
		assert.False(t, s.locked())
	}
	s.start()
	processes, err := s.Processes(s.unit)
	require.NoError(t, err)
	s.MustRun(t, "systemctl", "mask", "--runtime", s.unit) // no restart
	s.killAll(processes)
	for _, p := range processes {
		s.awaitDeath(p)
	}
	s.untilShow(s.unit, "MainPID", "0")
	assert.False(t, s.locked(), "the kernel releases the lock of a killed process")
	s.MustRun(t, "systemctl", "unmask", "--runtime", s.unit)
	s.MustRun(t, "systemctl", "stop", s.unit)
	s.startEightTimes()
	assert.True(t, s.locked())
	s.server()
	assert.Equal(t, "0", s.show(s.unit, "NRestarts")["NRestarts"])
}

// locked reports whether a process holds the lock.
func (s temporal) locked() bool {
	s.t.Helper()
	_, _, err := s.Run(s.t.Context(), "flock", "--nonblock", s.state+"/.lock", "true")
	return err != nil
}

func (s temporal) startEightTimes() {
	var starts sync.WaitGroup
	for range 8 {
		starts.Go(func() {
			_, _, err := s.Run(s.t.Context(), "systemctl", "start", s.unit)
			assert.NoError(s.t, err)
		})
	}
	starts.Wait()
}
