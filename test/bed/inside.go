package bed

import (
	"fmt"
	"strings"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Inside runs commands as a worker's user, with less confinement than the unit's: in
// the mounts of the unit, or in those of the machine, and without the filter of system
// calls.
type Inside struct {
	*Bed
	Name, UID   string
	Codex, Shim int // as the machine counts
}

// InWorker finds the processes of a worker.
func InWorker(b *Bed, name string) Inside {
	b.T.Helper()
	unit := "codex-worker@" + name + ".service"
	in := Inside{Bed: b, Name: name, UID: UID(b, unit)}
	processes, err := b.Processes(unit)
	require.NoError(b.T, err)
	for _, p := range processes {
		if IsCodex(p) {
			in.Codex = p.Inside
		} else if strings.Contains(p.Command, "notify-exec") {
			in.Shim = p.Inside
		}
	}
	require.NotZero(b.T, in.Codex, "%+v", processes)
	require.NotZero(b.T, in.Shim, "%+v", processes)
	return in
}

// Attempts are commands that succeed if they reach the worker. The ones named never must
// fail, and are not tried on the worker itself.
func Attempts(name string, w Inside) map[string][]string {
	home := "/var/lib/codex-worker/" + name
	connect := func(path string) []string {
		return []string{"perl", "-MIO::Socket::UNIX", "-e", `IO::Socket::UNIX->new(Peer => $ARGV[0]) or die $!`, path}
	}
	proc := func(pid int, file string) string { return fmt.Sprintf("/proc/%d/%s", pid, file) }
	ptrace := `syscall($ARGV[0], 16, $ARGV[1], 0, 0) == 0 or die $!`
	list := map[string][]string{
		"login":                 {"cat", home + "/auth.json"},
		"home":                  {"ls", home + "/"},
		"settings":              {"cat", home + "/config.toml"},
		"write":                 {"touch", home + "/made"},
		"runtime directory":     {"ls", "/run/codex-worker/" + name},
		"app-server.sock":       connect("/run/codex-worker/" + name + "/app-server.sock"),
		"never NAME.sock":       connect("/run/codex-proxy/" + name + ".sock"),
		"never control socket":  connect("/run/codex-proxy/control/socket"),
		"private home":          {"ls", "/var/lib/private/codex-worker/" + name},
		"signal":                {"sh", "-c", fmt.Sprintf("kill -0 %d", w.Codex)},
		"signal to the shim":    {"sh", "-c", fmt.Sprintf("kill -0 %d", w.Shim)},
		"never memory of codex": {"head", "-c1", proc(w.Codex, "mem")},
		"never trace of codex":  {"perl", "-e", ptrace, fmt.Sprint(unix.SYS_PTRACE), fmt.Sprint(w.Codex)},
	}
	for _, file := range []string{"environ", "maps", "root/etc/hostname", "fd/0", "auxv"} {
		list["never "+file+" of codex"] = []string{"cat", proc(w.Codex, file)}
		list["never "+file+" of the shim"] = []string{"cat", proc(w.Shim, file)}
	}
	if name != "default" {
		list["credential"] = []string{"cat", "/run/credentials/codex-worker@" + name + ".service/key"}
	}
	return list
}
