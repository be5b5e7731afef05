package runner

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/runner/paths"
	"codex-proxy/runner/session"
	"codex-proxy/test/await"
	"codex-proxy/test/bed"
	"codex-proxy/test/machine"
)

// runnerBed is a machine with codex-runner's programs and the units of sessions. The test plays the daemon.
type runnerBed struct {
	*machine.Machine
	t *testing.T
}

// These are made by make.
const (
	onlineUnit            = "build/systemd/codex-session-online@.service"
	onlineEnvironmentUnit = "build/systemd/codex-environment-online@.service"
)

// runnerFiles are the installed files of the packages below the top of the repository, by their directories.
var runnerFiles = map[string]string{
	"packaging/systemd/codex-session@.service": "/usr/lib/systemd/system/",
	onlineUnit:                                      "/usr/lib/systemd/system/",
	onlineEnvironmentUnit:                           "/usr/lib/systemd/system/",
	"packaging/systemd/codex-sessions.slice":        "/usr/lib/systemd/system/",
	"packaging/systemd/codex-repository@.service":   "/usr/lib/systemd/system/",
	"packaging/systemd/codex-environment@.service":  "/usr/lib/systemd/system/",
	"packaging/systemd/codex-sweep@.service":        "/usr/lib/systemd/system/",
	"packaging/systemd/codex-toolchains.mount.conf": `/usr/lib/systemd/system/run-codex\x2dsession-toolchains-.mount.d/`,
	"packaging/systemd/codex-workspaces.mount.conf": `/usr/lib/systemd/system/var-lib-codex\x2dworkspace-.mount.d/`,
	"packaging/tmpfiles/codex-runner.conf":          "/usr/lib/tmpfiles.d/",
}

// bootRunner boots a machine that has the packages of Debian, codex-runner's programs, runnerFiles, and more files.
func bootRunner(t *testing.T, suite string, more map[string]string, packages ...string) *machine.Machine {
	t.Helper()
	return bootRunnerOn(t, machine.Debian(suite, packages...), more)
}

// bootRunnerOn is bootRunner on a root that is given, beside what is bound there.
func bootRunnerOn(t *testing.T, root machine.Root, more map[string]string, binds ...machine.Bind) *machine.Machine {
	t.Helper()
	built := buildRunner(t)
	var install []machine.Entry
	for _, program := range runnerPrograms {
		install = append(install, machine.Entry{Path: program, Source: built + filepath.Base(program), Mode: 0o755})
	}
	for _, files := range []map[string]string{runnerFiles, more} {
		for file, dir := range files {
			source, err := filepath.Abs("../../../" + file)
			require.NoError(t, err)
			install = append(install, machine.Entry{Path: dir + filepath.Base(file), Source: source, Mode: 0o644})
		}
	}
	return machine.Boot(t, root, machine.Options{Install: install, Binds: binds, Units: []string{"codex-*"}})
}

// newRunnerBed is bootRunner without a daemon.
func newRunnerBed(t *testing.T, suite string, packages ...string) *runnerBed {
	t.Helper()
	b := &runnerBed{Machine: bootRunner(t, suite, nil, packages...), t: t}
	script := "systemd-sysusers --inline 'u codex-runner -'\nsystemd-tmpfiles --create codex-runner.conf\n"
	for dir, mode := range map[string]string{
		paths.StateDir: "0700", paths.StateDir + "/sessions": "0700", paths.RuntimeDir: "0755",
		paths.RuntimeDir + "/sessions": "0700", paths.Secrets: "0700", paths.RepositoryCredentials: "0700",
		paths.StateDir + "/repositories": "0700", paths.StateDir + "/environments": "0700",
	} {
		script += "install --directory --owner=codex-runner --group=codex-runner --mode=" + mode + " " + dir + "\n"
	}
	b.MustRun(t, "sh", "-ec", script)
	return b
}

// runnerSession is a session of the bed.
type runnerSession struct {
	*runnerBed
	id       string
	slot     int
	online   bool
	commands int
}

// session makes a session with the files that the daemon makes. The name becomes an ID.
func (b *runnerBed) session(name string, slot int) *runnerSession {
	b.t.Helper()
	id := fmt.Sprintf("%s%016d", name, 0)[:16]
	s := &runnerSession{runnerBed: b, id: string(bytes.ReplaceAll([]byte(id), []byte("0"), []byte("2"))), slot: slot}
	require.NoError(b.t, paths.CheckID(s.id))
	b.MustRun(b.t, "runuser", "-u", "codex-runner", "--", "mkdir", "--mode=0700",
		paths.StateDir+"/"+paths.SessionDir(s.id), paths.Secrets+"/"+s.id)
	return s
}

func (s *runnerSession) unit() string {
	if s.online {
		return paths.OnlineUnit(s.id)
	}
	return paths.SessionUnit(s.id)
}

// file is the path of a file of the current command.
func (s *runnerSession) file(name string) string {
	return filepath.Join(paths.StateDir, paths.CommandDir(s.id, s.commands), name)
}

// shell returns the specification of a shell script, within generous limits.
func shell(script string) session.Spec {
	return session.Spec{
		Args: []string{"sh", "-c", script}, Timeout: bed.Bound, Grace: time.Second, OutputLimit: 1 << 20,
	}
}

// patch makes the patch of the session, which the next command with a workspace gets.
func (s *runnerSession) patch(text string) {
	s.t.Helper()
	file := filepath.Join(paths.StateDir, paths.SessionDir(s.id), paths.Patch)
	require.NoError(s.t, s.WriteFile(file, []byte(text), 0o600))
}

// next makes the next command of the session.
func (s *runnerSession) next(spec session.Spec) {
	s.t.Helper()
	spec.Version, spec.Slot = session.Version, s.slot
	if s.commands == 0 && spec.Workspace == nil {
		spec.Workspace = &session.Workspace{}
	}
	text, err := session.Encode(&spec)
	require.NoError(s.t, err)
	s.commands++
	require.NoError(s.t, s.WriteFile(s.file(paths.Spec), text, 0o600))
	dir := filepath.Join(paths.StateDir, paths.SessionDir(s.id))
	require.NoError(s.t, s.WriteFile(filepath.Join(dir, paths.Current), fmt.Append(nil, s.commands), 0o600))
	s.MustRun(s.t, "chown", "-R", "codex-runner:codex-runner", dir)
}

// ending is what a command leaves behind.
type ending struct {
	result *session.Result // nil if it is not whole
	ended  *session.Ended
	output string
}

// run runs the next command and waits for the end of the unit.
func (s *runnerSession) run(spec session.Spec) ending {
	s.t.Helper()
	s.next(spec)
	_, _ = s.Systemctl(s.t.Context(), "start", "--wait", s.unit()) // fails as the unit does
	return s.ending()
}

// ending reads the files of the current command, after the end of the unit.
func (s *runnerSession) ending() ending {
	s.t.Helper()
	processes, err := s.Processes(s.unit())
	require.NoError(s.t, err)
	assert.Empty(s.t, processes, "processes outlive the unit")
	text, err := s.ReadFile(s.file(paths.Ended))
	require.NoError(s.t, err)
	var e ending
	e.ended, err = session.ReadEnded(bytes.NewReader(text))
	require.NoError(s.t, err)
	boot, err := s.ReadFile("/proc/sys/kernel/random/boot_id")
	require.NoError(s.t, err)
	assert.Equal(s.t, string(bytes.TrimSpace(boot)), e.ended.Boot)
	assert.Len(s.t, e.ended.Invocation, 32)
	if text, err := s.ReadFile(s.file(paths.Result)); err == nil {
		e.result, _ = session.ReadResult(bytes.NewReader(text))
	}
	output, _ := s.ReadFile(s.file(paths.Output))
	e.output = string(output)
	s.cleaned()
	return e
}

// cleaned requires that nothing of the start is left.
func (s *runnerSession) cleaned() {
	s.t.Helper()
	for _, path := range []string{
		filepath.Join(paths.Sessions, s.id), filepath.Join(paths.SystemControl, s.unit()+".d"),
		filepath.Join(paths.RuntimeDir, paths.ControlDir(s.id), paths.ControlSocket),
	} {
		_, _, err := s.Run(s.t.Context(), "test", "!", "-e", path)
		assert.NoError(s.t, err, path)
	}
}

// writing asks for the status of the running command until it has written so many bytes, and returns that status.
func (s *runnerSession) writing(size int) map[string]any {
	s.t.Helper()
	for deadline, pace := time.Now().Add(bed.Bound), (await.Pace{}); ; pace.Pause(s.t.Context()) {
		status := s.ask(`{"version":1,"do":"status"}`)
		if written, _ := status["bytes"].(float64); int(written) >= size {
			return status
		}
		require.True(s.t, time.Now().Before(deadline), "it never wrote %d bytes: %v", size, status)
	}
}

// ask sends a request to the session's control socket and returns the reply.
func (s *runnerSession) ask(request string) map[string]any {
	s.t.Helper()
	conn, err := s.DialUnix(s.t.Context(), filepath.Join(paths.RuntimeDir, paths.ControlDir(s.id), paths.ControlSocket))
	require.NoError(s.t, err)
	defer conn.Close()
	require.NoError(s.t, conn.SetDeadline(time.Now().Add(bed.Bound)))
	_, err = conn.Write([]byte(request + "\n"))
	require.NoError(s.t, err)
	reply := map[string]any{}
	require.NoError(s.t, json.NewDecoder(conn).Decode(&reply))
	return reply
}
