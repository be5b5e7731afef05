package daemon

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/bed"
	"codex-proxy/test/nightly"
)

const firstKey = "/etc/codex-proxy/first-key"

// The life of a package on a server, in the order of its events.
func TestPackage(t *testing.T) {
	debs, rpms := bed.Deb(t), rpm(t)
	bed.BothSuites(t, func(t *testing.T, suite string) {
		t.Run("deb", func(t *testing.T) { live(bed.Empty(t, suite), debs) })
		if nightly.Is() || suite == bed.Newest { // TestRelease has that of the oldest
			t.Run("rpm", func(t *testing.T) { live(bed.Empty(t, suite), rpms) })
		}
	})
}

// live goes through an image, an installation, the first start, an upgrade, a mistake,
// a downgrade, a removal, another installation, and a purge.
func live(b *bed.Bed, p bed.Packager) {
	t, before := b.T, bed.Files(b)
	output := bed.InstallInImage(b, p)
	assert.Contains(t, output, "systemd does not run here, so no API key was made")
	b.MustRun(t, "sh", "-c", "! test -s "+bed.KeyFile+" && ! test -e "+firstKey)
	p.Purge(b)
	assert.Empty(t, bed.FilesSince(b, before), "what a purge of the image leaves")

	assertInstalled(b, p.Install(b, p.Now))
	key := bed.Trim(b.MustRun(t, "cat", firstKey))
	assertStarts(b, key)

	server := b.StartEnabled("server")

	pid := b.Properties(bed.ProxyUnit, "MainPID")["MainPID"]
	b.AppendTo(bed.ConfigFile, "# mine\n")
	p.Install(b, p.Next)
	pid = assertTookOver(b, pid, key)
	assert.Contains(t, b.MustRun(t, "cat", bed.ConfigFile), "# mine\n", "an edited file is kept")

	b.MustRun(t, "sh", "-ec", "mv "+bed.WorkerFile+" /root/; cp "+bed.KeyFile+
		" /etc/codex-proxy/own; sed -i '1i workers = [\"default\"]\\napi_keys = \"/etc/codex-proxy/own\"' "+bed.ConfigFile)
	assert.Contains(t, b.MustRun(t, "codex-proxy", "config", "check"), "is good", "root's word for it")
	assert.Contains(t, p.Install(b, p.Next), "the old program goes on with the old configuration, for what systemctl status codex-proxy says; mend that", "the same again, with a mistake that only the daemon sees")
	assert.Equal(t, pid, b.Properties(bed.ProxyUnit, "MainPID")["MainPID"])
	assert.Equal(t, http.StatusOK, listModels(b, key))
	b.MustRun(t, "sh", "-ec", "! test -e "+bed.WorkerFile+"; mv /root/default.toml "+bed.WorkerFile+
		"; rm /etc/codex-proxy/own; sed -i 1,2d "+bed.ConfigFile)

	p.Install(b, p.Now)
	assertTookOver(b, pid, key)
	assert.Equal(t, server, b.Properties(bed.ServerUnit, "InvocationID", "MainPID", "ActiveState"), "a dependency runs on")

	const third = "codex-worker@third.service"
	b.MustRun(t, "sh", "-ec", "cp "+bed.WorkerFile+" /etc/codex-proxy/workers/third.toml; systemctl enable "+
		third) // as accounts add does
	b.MustRun(t, "sh", "-ec", "mkdir -p /var/lib/codex-copies/0.1.0-0123456789ab/bin; echo {} >/var/lib/codex-copies/state.json")
	p.Remove(b)
	b.MustRun(t, "sh", "-c", "! ls -d /var/lib/codex-copies/*/ && ! ls -d /run/codex-copies")
	assertGone(b)
	assert.Empty(t, b.MustRun(t, "systemctl", "list-units", "--no-legend", "codex*"), "what a removal leaves")
	assertSecret(b, key)

	b.AppendTo(bed.ConfigFile, "keepaliv = \"1s\"\n")
	output = p.Install(b, p.Now)
	assert.Contains(t, output, "systemctl start codex-proxy\n", "what ran before does not")
	assert.Equal(t, key, bed.Trim(b.MustRun(t, "cat", firstKey)), "the key is made once")
	assert.Contains(t, b.MustRun(t, "cat", bed.ConfigFile), "keepaliv", "an old file is kept, though it is broken")
	assert.Equal(t, "enabled", bed.Trim(b.MustRun(t, "systemctl", "is-enabled", third)), "a worker is there with its file")
	assert.Equal(t, "enabled", bed.Trim(b.MustRun(t, "systemctl", "is-enabled", bed.ServerUnit)), "so is a dependency")
	b.MustRun(t, "systemctl", "start", bed.ServerUnit)
	b.MustRun(t, "sh", "-ec", "rm /etc/codex-proxy/workers/third.toml /etc/codex-proxy/dependencies/server.toml; systemctl enable codex-worker@second.service")
	_, _, err := b.Run(t.Context(), "systemctl", "start", "codex-proxy")
	require.Error(t, err)
	p.Purge(b)
	b.MustRun(t, "rm", "/usr/local/bin/listener")
	assert.Empty(t, bed.FilesSince(b, before), "what a purge leaves")
	assert.Empty(t, b.MustRun(t, "systemctl", "list-units", "--all", "--no-legend", "codex*"),
		"what has failed before it")
}

func assertInstalled(b *bed.Bed, output string) {
	t := b.T
	assert.Contains(t, output, "the API key is in "+firstKey)
	assert.Contains(t, output, "codex is missing: npm install -g @openai/codex\n")
	assert.Contains(t, output, "\n  codex-proxy accounts login\n  systemctl start codex-proxy\n")
	assert.Equal(t, "enabled", bed.Trim(b.MustRun(t, "systemctl", "is-enabled", "codex.target")))
	assert.Empty(t, activeUnits(b), "nothing starts by itself")
	assert.Equal(t, "600 root:root\n600 root:root", bed.Trim(b.MustRun(t, "stat", "--format=%a %U:%G", firstKey, bed.KeyFile)))
	assert.Contains(t, b.MustRun(t, "codex-proxy", "keys", "list"), "\nfirst ")
}

// assertStarts starts only the service, and sends a request with the key.
func assertStarts(b *bed.Bed, key string) {
	t := b.T
	require.NoError(t, b.WriteFile(bed.WorkerFile, []byte(bed.RealWorker), 0o644))
	b.MustRun(t, "systemctl", "start", "codex-proxy")
	b.UntilShow("codex.target", "ActiveState", "active") // it follows the service
	assert.Equal(t, "codex-proxy.service codex-worker@default.service codex-copies.socket codex-proxy-database.socket codex-proxy-fetch.socket codex-proxy-logins.socket codex-proxy-traces.socket codex-proxy.socket codex-worker@default.socket codex.target", activeUnits(b))
	assert.Equal(t, http.StatusOK, listModels(b, key))
	assert.Equal(t, http.StatusUnauthorized, listModels(b, "none"))
}

// assertTookOver asserts that after an upgrade a new process took over, no unit was
// restarted, and the key is the same. It returns the PID of the new process.
func assertTookOver(b *bed.Bed, before, key string) string {
	b.T.Helper()
	now := b.Properties(bed.ProxyUnit, "MainPID", "NRestarts", "ActiveState")
	assert.NotEqual(b.T, before, now["MainPID"])
	assert.Equal(b.T, "active", now["ActiveState"])
	assert.Equal(b.T, "0", now["NRestarts"])
	assert.Equal(b.T, http.StatusOK, listModels(b, key))
	assert.Equal(b.T, key, bed.Trim(b.MustRun(b.T, "cat", firstKey)))
	return now["MainPID"]
}

// assertGone asserts that a removal is complete.
func assertGone(b *bed.Bed) {
	b.T.Helper()
	assert.Empty(b.T, activeUnits(b))
	assert.Empty(b.T, b.MustRun(b.T, "sh", "-c", "ps -e -o args= | grep '[c]odex-proxy\\|[a]pp-server' || true"))
	_, _, err := b.Run(b.T.Context(), "systemctl", "cat", "codex.target")
	assert.Error(b.T, err)
}

// assertSecret looks for the key in the output that every user sees.
func assertSecret(b *bed.Bed, key string) {
	b.T.Helper()
	require.NotEmpty(b.T, key)
	assert.NotContains(b.T, b.Export(), key)
	assert.NotContains(b.T, b.MustRun(b.T, "cat", bed.KeyFile), key)
}

// listModels is the status of GET /v1/models with that key.
func listModels(b *bed.Bed, key string) int {
	b.T.Helper()
	req, err := http.NewRequestWithContext(b.T.Context(), http.MethodGet, bed.Base+"/v1/models", nil)
	require.NoError(b.T, err)
	req.Header.Set("Authorization", "Bearer "+key)
	res, err := b.HTTP.Do(req)
	require.NoError(b.T, err)
	res.Body.Close()
	return res.StatusCode
}

func activeUnits(b *bed.Bed) string {
	b.T.Helper()
	out := b.MustRun(b.T, "systemctl", "list-units", "--plain", "--no-legend",
		"--state=active,activating,deactivating", "codex*.service", "codex*.socket", "codex.target")
	var units []string
	for _, line := range strings.Split(bed.Trim(out), "\n") {
		unit, _, _ := strings.Cut(line, " ")
		units = append(units, unit)
	}
	return strings.Join(units, " ")
}
