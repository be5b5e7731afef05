package bed

import (
	"fmt"

	"github.com/stretchr/testify/require"

	"codex-proxy/units"
)

// Remote is a remote on the machine of a bed.
type Remote struct {
	*Bed
	Name, Unit, Socket, File, Home string
}

// NewRemote writes the file of a remote, whose directory it makes for the user if there is none, and opens its sockets.
func NewRemote(b *Bed, name, user, keys string) Remote {
	b.T.Helper()
	r := Remote{Bed: b, Name: name, Unit: units.Remote(name), Socket: units.RemoteSocket(name),
		File: "/etc/codex-proxy/remotes/" + name + ".toml", Home: "/var/lib/codex-remote/" + name}
	b.MustRun(b.T, "install", "-d", "-m", "777", "/srv/"+name)
	require.NoError(b.T, b.WriteFile("/etc/codex-proxy/remotes/"+name+".key", []byte("sk-"+name+"-SECRET\n"), 0o600))
	r.Write(fmt.Sprintf(`directory = "/srv/%[1]s"
user = %[2]q
model = %[3]q
codex_path = "%[4]s/bin/codex"
%[5]s
[provider]
name = "scripted"
base_url = "http://%[6]s/v1"
key_file = "/etc/codex-proxy/remotes/%[1]s.key"
`, name, user, Model, CodexDir, keys, ModelAddr))
	b.MustRun(b.T, "systemctl", "start", r.Socket)
	return r
}

// Write replaces the file, and lets systemd read it.
func (r Remote) Write(text string) {
	r.T.Helper()
	require.NoError(r.T, r.WriteFile(r.File, []byte(text), 0o644))
	r.MustRun(r.T, "systemctl", "daemon-reload")
}
