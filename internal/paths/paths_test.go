package paths

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The unit files have the same names, directories and users.
func TestUnitsHaveThesePaths(t *testing.T) {
	const dir = "../../packaging/systemd"
	for unit, lines := range map[string][]string{
		ServiceUnit: {
			"User=" + User + "\n",
			"RuntimeDirectory=" + under("/run/", RuntimeDir) + "\n",
			"StateDirectory=" + under("/var/lib/", StateDir) + "\n",
			"LoadCredential=api-keys:" + KeyFile + "\n",
		},
		SocketUnit: {"FileDescriptorName=" + HTTPSocketName + "\n"},
		"codex-worker@.service": {
			"SupplementaryGroups=" + WorkerUser + "\n", "StateDirectory=" + under("/var/lib/", WorkerHomes) + "/%i\n",
			"RuntimeDirectory=" + under("/run/", WorkerRuntimeDirs) + "/%i\n",
		},
		"codex-worker@.socket": {"ListenStream=" + WorkerSockets + "/%i.sock\n"},
		"codex-broker@.socket": {"ListenStream=" + BrokerSockets + "/%i.sock\n"},
		"codex-hands@.socket": {"ListenStream=" + HandsSocket("%i") + "\n", "ListenStream=" + OwnHandsSocket("%i") + "\n",
			"FileDescriptorName=" + HandsSocketName + "\n"},
		"codex-hands@.service": {"StateDirectory=" + under("/var/lib/", HandsStates) + "/%i\n"},
		"codex-login@.socket": {"ListenStream=" + AccountSocket("%i") + "\n", "ListenStream=" + OwnLoginSocket("%i") + "\n",
			"FileDescriptorName=" + LoginSocketName + "\n"},
		"codex-login@.service": {
			"StateDirectory=" + under("/var/lib/", LoginHomes) + "/%i\n",
			"RuntimeDirectory=" + under("/run/", LoginRuntimeDirs) + "/%i\n",
		},
		"codex-remote@.service": {
			"StateDirectory=" + under("/var/lib/", RemoteHomes) + "/%i\n",
			"RuntimeDirectory=" + under("/run/", RemoteRuntimeDirs) + "/%i\n",
		},
		"codex-remote@.socket": {
			"ListenStream=" + RemoteSocket("%i") + "\n", "ListenStream=" + RemoteViewerSocket("%i") + "\n",
			"FileDescriptorName=" + RemoteSocketName + "\n",
		},
		"codex-remote-network@.socket": {
			"ListenStream=" + RemoteNetworkSocket("%i") + "\n", "FileDescriptorName=" + RemoteSocketName + "\n",
			"SocketGroup=" + User + "\n",
		},
		"codex-remote-notify@.socket": {"ListenDatagram=" + RemoteNotifySocket("%i") + "\n"},
		LoginsSocketUnit: {"ListenSequentialPacket=" + LoginsSocket + "\n", "FileDescriptorName=" + LoginsSocketName + "\n",
			"Service=" + ServiceUnit + "\n"},
		FetchSocketUnit:  {WorkerSockets + "/"},
		TracesSocketUnit: {WorkerSockets + "/"},
		TargetUnit:       {"[Unit]\n"},
	} {
		text, err := os.ReadFile(filepath.Join(dir, unit))
		require.NoError(t, err)
		for _, line := range lines {
			assert.Contains(t, string(text), line, unit)
		}
	}
}

func under(dir, path string) string { return path[len(dir):] }
