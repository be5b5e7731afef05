package integration

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const firstKey = "/etc/codex-proxy/first-key"

// The life of a package on a server, in the order of its events.
func TestPackage(t *testing.T) {
	debs, rpms := deb(t), rpm(t)
	bothSuites(t, func(t *testing.T, suite string) {
		t.Run("deb", func(t *testing.T) { emptyBed(t, suite).live(debs) })
		t.Run("rpm", func(t *testing.T) { emptyBed(t, suite).live(rpms) })
	})
}

// live goes through an image, an installation, the first start, an upgrade, a mistake,
// a downgrade, a removal, another installation, and a purge.
func (b *bed) live(p packager) {
	t, before := b.t, b.files()
	output := b.installInImage(p)
	assert.Contains(t, output, "systemd does not run here, so no API key was made")
	b.MustRun(t, "sh", "-c", "! test -s "+keyFile+" && ! test -e "+firstKey)
	p.purge(b)
	assert.Empty(t, b.left(before), "what a purge of the image leaves")

	b.assertInstalled(p.install(b, p.now))
	key := trim(b.MustRun(t, "cat", firstKey))
	b.assertStarts(key)

	server := b.startEnabled("server")

	pid := b.show(proxyUnit, "MainPID")["MainPID"]
	b.appendTo(configFile, "# mine\n")
	p.install(b, p.next)
	pid = b.assertTookOver(pid, key)
	assert.Contains(t, b.MustRun(t, "cat", configFile), "# mine\n", "an edited file is kept")

	b.MustRun(t, "sh", "-ec", "mv "+workerFile+" /root/; cp "+keyFile+
		" /etc/codex-proxy/own; sed -i '1i workers = [\"default\"]\\napi_keys = \"/etc/codex-proxy/own\"' "+configFile)
	assert.Contains(t, b.MustRun(t, "codex-proxy", "config", "check"), "is good", "root's word for it")
	assert.Contains(t, p.install(b, p.next), "the old program goes on with the old configuration, for what systemctl status codex-proxy says; mend that", "the same again, with a mistake that only the daemon sees")
	assert.Equal(t, pid, b.show(proxyUnit, "MainPID")["MainPID"])
	assert.Equal(t, http.StatusOK, b.listModels(key))
	b.MustRun(t, "sh", "-ec", "! test -e "+workerFile+"; mv /root/default.toml "+workerFile+
		"; rm /etc/codex-proxy/own; sed -i 1,2d "+configFile)

	p.install(b, p.now)
	b.assertTookOver(pid, key)
	assert.Equal(t, server, b.show(serverUnit, "InvocationID", "MainPID", "ActiveState"), "a dependency runs on")

	const third = "codex-worker@third.service"
	b.MustRun(t, "sh", "-ec", "cp "+workerFile+" /etc/codex-proxy/workers/third.toml; systemctl enable "+
		third) // as accounts add does
	p.remove(b)
	b.assertGone()
	assert.Empty(t, b.MustRun(t, "systemctl", "list-units", "--no-legend", "codex*"), "what a removal leaves")
	b.assertSecret(key)

	b.appendTo(configFile, "keepaliv = \"1s\"\n")
	output = p.install(b, p.now)
	assert.Contains(t, output, "systemctl start codex-proxy\n", "what ran before does not")
	assert.Equal(t, key, trim(b.MustRun(t, "cat", firstKey)), "the key is made once")
	assert.Contains(t, b.MustRun(t, "cat", configFile), "keepaliv", "an old file is kept, though it is broken")
	assert.Equal(t, "enabled", trim(b.MustRun(t, "systemctl", "is-enabled", third)), "a worker is there with its file")
	assert.Equal(t, "enabled", trim(b.MustRun(t, "systemctl", "is-enabled", serverUnit)), "so is a dependency")
	b.MustRun(t, "systemctl", "start", serverUnit)
	b.MustRun(t, "sh", "-ec", "rm /etc/codex-proxy/workers/third.toml /etc/codex-proxy/dependencies/server.toml; systemctl enable codex-worker@second.service")
	_, _, err := b.Run(t.Context(), "systemctl", "start", "codex-proxy")
	require.Error(t, err)
	p.purge(b)
	b.MustRun(t, "rm", "/usr/local/bin/listener")
	assert.Empty(t, b.left(before), "what a purge leaves")
	assert.Empty(t, b.MustRun(t, "systemctl", "list-units", "--all", "--no-legend", "codex*"),
		"what has failed before it")
}

const serverUnit = "codex-dependency@server.service"

// startEnabled makes a dependency, which starts now and at boot. It returns its run.
func (b *bed) startEnabled(name string) map[string]string {
	b.t.Helper()
	b.program("listener", listener)
	b.dependency(name, listening(7001))
	b.MustRun(b.t, "systemctl", "enable", "--now", "codex-dependency@"+name)
	run := b.show("codex-dependency@"+name+".service", "InvocationID", "MainPID", "ActiveState")
	require.Equal(b.t, "active", run["ActiveState"])
	return run
}

func (b *bed) assertInstalled(output string) {
	t := b.t
	assert.Contains(t, output, "the API key is in "+firstKey)
	assert.Contains(t, output, "codex is missing: npm install -g @openai/codex\n")
	assert.Contains(t, output, "\n  codex-proxy accounts login\n  systemctl start codex-proxy\n")
	assert.Equal(t, "enabled", trim(b.MustRun(t, "systemctl", "is-enabled", "codex.target")))
	assert.Empty(t, b.activeUnits(), "nothing starts by itself")
	assert.Equal(t, "600 root:root\n600 root:root", trim(b.MustRun(t, "stat", "--format=%a %U:%G", firstKey, keyFile)))
	assert.Contains(t, b.MustRun(t, "codex-proxy", "keys", "list"), "\nfirst ")
}

// assertStarts starts only the service, and sends a request with the key.
func (b *bed) assertStarts(key string) {
	t := b.t
	require.NoError(t, b.WriteFile(workerFile, []byte(realWorker), 0o644))
	b.MustRun(t, "systemctl", "start", "codex-proxy")
	b.untilShow("codex.target", "ActiveState", "active") // it follows the service
	assert.Equal(t, "codex-proxy.service codex-worker@default.service codex-proxy-fetch.socket codex-proxy-logins.socket codex-proxy-traces.socket codex-proxy.socket codex-worker@default.socket codex.target", b.activeUnits())
	assert.Equal(t, http.StatusOK, b.listModels(key))
	assert.Equal(t, http.StatusUnauthorized, b.listModels("none"))
}

// assertTookOver asserts that after an upgrade a new process took over, no unit was
// restarted, and the key is the same. It returns the PID of the new process.
func (b *bed) assertTookOver(before, key string) string {
	b.t.Helper()
	now := b.show(proxyUnit, "MainPID", "NRestarts", "ActiveState")
	assert.NotEqual(b.t, before, now["MainPID"])
	assert.Equal(b.t, "active", now["ActiveState"])
	assert.Equal(b.t, "0", now["NRestarts"])
	assert.Equal(b.t, http.StatusOK, b.listModels(key))
	assert.Equal(b.t, key, trim(b.MustRun(b.t, "cat", firstKey)))
	return now["MainPID"]
}

// assertGone asserts that a removal is complete.
func (b *bed) assertGone() {
	b.t.Helper()
	assert.Empty(b.t, b.activeUnits())
	assert.Empty(b.t, b.MustRun(b.t, "sh", "-c", "ps -e -o args= | grep '[c]odex-proxy\\|[a]pp-server' || true"))
	_, _, err := b.Run(b.t.Context(), "systemctl", "cat", "codex.target")
	assert.Error(b.t, err)
}

// assertSecret looks for the key in the output that every user sees.
func (b *bed) assertSecret(key string) {
	b.t.Helper()
	require.NotEmpty(b.t, key)
	assert.NotContains(b.t, b.export(), key)
	assert.NotContains(b.t, b.MustRun(b.t, "cat", keyFile), key)
}

// listModels is the status of GET /v1/models with that key.
func (b *bed) listModels(key string) int {
	b.t.Helper()
	req, err := http.NewRequestWithContext(b.t.Context(), http.MethodGet, base+"/v1/models", nil)
	require.NoError(b.t, err)
	req.Header.Set("Authorization", "Bearer "+key)
	res, err := b.http.Do(req)
	require.NoError(b.t, err)
	res.Body.Close()
	return res.StatusCode
}

func (b *bed) activeUnits() string {
	b.t.Helper()
	out := b.MustRun(b.t, "systemctl", "list-units", "--plain", "--no-legend",
		"--state=active,activating,deactivating", "codex*.service", "codex*.socket", "codex.target")
	var units []string
	for _, line := range strings.Split(trim(out), "\n") {
		unit, _, _ := strings.Cut(line, " ")
		units = append(units, unit)
	}
	return strings.Join(units, " ")
}

func (b *bed) appendTo(path, text string) {
	b.t.Helper()
	b.MustRun(b.t, "sh", "-c", "printf %s '"+text+"' >>"+path)
}
