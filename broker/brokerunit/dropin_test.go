package brokerunit

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/internal/paths"
	"codex-proxy/workers/sharing"
)

const worker = `network = "model"
mode = "plain"
model = "m"
[provider]
name = "x"
base_url = "https://model.test/v1"
`

// generate returns the drop-ins of a worker's unit and of its broker; empty: there is none.
func generate(t *testing.T, file string, operator map[string]string) (ofWorker, ofBroker string) {
	t.Helper()
	settings, units, control, dir := t.TempDir(), t.TempDir(), t.TempDir(), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(settings, "w.toml"), []byte(file), 0o600))
	for name, text := range operator {
		if inControl, ok := strings.CutPrefix(name, "control/"); ok {
			name = filepath.Join(control, inControl)
		} else {
			name = filepath.Join(units, name)
		}
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o700))
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	}
	require.NoError(t, Generate(settings, nil, []string{units, control}, dir))
	read := func(unit string) string {
		text, err := os.ReadFile(filepath.Join(dir, unit+".d", "zz-broker.conf"))
		if err != nil {
			require.ErrorIs(t, err, os.ErrNotExist)
		}
		return string(text)
	}
	return read("codex-worker@w.service"), read("codex-broker@w.service")
}

// The broker gets the key, and what determines the way of requests; codex keeps its other credentials.
func TestGenerate(t *testing.T) {
	ofWorker, ofBroker := generate(t, worker+"credential = \"key\"\nca_file = \"/etc/ssl/a b%.pem\"\n", map[string]string{
		"codex-worker@w.service.d/override.conf": "[Unit]\nLoadCredential=no:/x\n[Service]\nLoadCredential=key:/etc/key\n" +
			"LoadCredential = other:/etc/other\nMemoryMax=1G\n",
		"codex-worker@.service.d/proxy.conf": "[Service]\nEnvironment=A=1\nEnvironment=\nEnvironment=HTTPS_PROXY=http://p:1 \\\n  B=2\n",
	})
	assert.Contains(t, ofWorker, "Requires=codex-broker@w.socket\nWants=codex-broker@w.service\n"+
		"After=codex-broker@w.socket codex-broker@w.service\n[Service]\nPrivateNetwork=yes\n"+
		"NetworkNamespacePath=\nIPAddressAllow=\nIPAddressDeny=\nInaccessiblePaths=-/run/systemd/resolve/io.systemd.Resolve "+
		"-/run/nscd -/run/avahi-daemon -/run/cups -/run/snapd.socket -/run/snapd-snap.socket\n"+
		"UnsetEnvironment=HTTP_PROXY HTTPS_PROXY ALL_PROXY http_proxy https_proxy all_proxy\n"+
		"BindReadOnlyPaths=-/run/codex-broker/w.sock:/run/codex-worker/w/broker.sock\n"+
		"Environment=CODEX_MODEL_BROKER=/run/codex-worker/w/broker.sock\nLoadCredential=\nLoadCredential=other:/etc/other\n")
	assert.Contains(t, ofBroker, "[Service]\nUser=cb-w\nLoadCredential=key:/etc/key\nSetCredential=key:no file\n"+
		"LoadCredential=provider-authorities:/etc/ssl/a b%%.pem\nSetCredential=provider-authorities:no file\n"+
		"Environment=HTTPS_PROXY=http://p:1    B=2\n"+
		`Environment="CODEX_BROKER_MADE_OF=key:/etc/ssl/a b%%.pem"`+"\n")
	assert.NotContains(t, ofBroker, "MemoryMax")
}

// A worker has the network of the machine without the key, and in mode "demo"; a file with a fault changes no unit.
func TestGenerateNothing(t *testing.T) {
	for name, file := range map[string]string{
		"login": "mode = \"plain\"\n", "demo": strings.Replace(worker, "plain", "demo", 1),
		"default": strings.Replace(worker, "network = \"model\"\n", "", 1),
		"host":    strings.Replace(worker, "network = \"model\"", "network = \"host\"", 1),
		"fault":   worker + "x = 1\n", "server": worker + "[codex.mcp_servers.x]\nurl = \"http://x\"\n",
		"lines": worker + `ca_file = "/x\n[Service]\nExecStartPre=+/bin/true"` + "\n",
	} {
		ofWorker, ofBroker := generate(t, file, nil)
		assert.Empty(t, ofWorker+ofBroker, name)
	}
}

// A file with the same name for one worker takes the place of the one for all.
func TestDropInOfOneWorker(t *testing.T) {
	_, ofBroker := generate(t, worker, map[string]string{
		"codex-worker@.service.d/a.conf":  "[Service]\nEnvironment=A=all\n",
		"codex-worker@w.service.d/a.conf": "[Service]\nEnvironment=A=one\n",
	})
	assert.Contains(t, ofBroker, "A=one")
	assert.NotContains(t, ofBroker, "A=all")
}

// Without its key a worker has no network all the same.
func TestNoKey(t *testing.T) {
	ofWorker, ofBroker := generate(t, worker+"credential = \"key\"\n", nil)
	assert.Contains(t, ofWorker, "PrivateNetwork=yes")
	assert.NotContains(t, ofBroker, "LoadCredential")
}

// The broker reads the drop-ins as systemd does for the worker.
func TestDropInsOfSystemd(t *testing.T) {
	_, ofBroker := generate(t, worker+"credential = \"w\"\n", map[string]string{
		"codex-worker@w.service.d/a.conf": "[Service]\n# a key, see \\\nLoadCredential=%i:/etc/%N/%n/%p/%%i\n" +
			"Environment=A=1 \\\n; comment\nB=2\nNetworkNamespacePath=/run/netns/vpn\n",
		"control/codex-worker@w.service.d/50-IPAddressDeny.conf": "[Service]\nIPAddressDeny=any\n",
	})
	assert.Contains(t, ofBroker, "LoadCredential=w:/etc/codex-worker@w/codex-worker@w.service/codex-worker/%%i\n")
	assert.Contains(t, ofBroker, "IPAddressDeny=any\nEnvironment=A=1  B=2\nNetworkNamespacePath=/run/netns/vpn\n")
}

// A broker whose unit is of other settings than the file, or has no key, says what to do.
func TestRefusals(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "w.toml")
	refused := func(text string) error {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		_, _, err := Load("w", dir, t.TempDir(), nil)
		return err
	}
	const stale = "w.toml has changed: `systemctl daemon-reload`, then `systemctl restart codex-worker@w.service`"
	t.Setenv(MadeOf, "key:")
	require.ErrorContains(t, refused(worker+"credential = \"other\"\n"), stale)
	require.ErrorContains(t, refused("mode = \"plain\"\n"), stale)
	require.ErrorContains(t, refused(worker+"credential = \"key\"\n"), "no LoadCredential=key:FILE in the drop-ins of the worker's "+
		"unit gives the credential \"key\": mend LoadCredential= by `systemctl edit codex-worker@w.service`, then")
}

// A worker with a login has a third unit, which keeps that, and the broker alone gets its socket.
func TestLoginApart(t *testing.T) {
	settings, dir, operator := t.TempDir(), t.TempDir(), t.TempDir()
	file := []byte("network = \"model\"\nmode = \"plain\"\n")
	require.NoError(t, os.WriteFile(filepath.Join(settings, "w.toml"), file, 0o600))
	dropIn := filepath.Join(operator, "codex-worker@w.service.d")
	require.NoError(t, os.Mkdir(dropIn, 0o700))
	own := []byte("[Service]\nEnvironment=HTTPS_PROXY=http://p:1\n")
	require.NoError(t, os.WriteFile(filepath.Join(dropIn, "a.conf"), own, 0o600))
	for range 2 {
		require.NoError(t, Generate(settings, nil, []string{operator}, dir))
	}
	read := func(unit string) string {
		text, err := os.ReadFile(filepath.Join(dir, unit+".d", "zz-broker.conf"))
		require.NoError(t, err)
		return string(text)
	}
	assert.Contains(t, read("codex-worker@w.service"),
		"\nRequires=codex-login@w.socket\nAfter=codex-login@w.socket\n[Service]\nPrivateNetwork=yes\n")
	assert.NotContains(t, read("codex-worker@w.service"), "/run/codex-login")
	assert.Contains(t, read("codex-broker@w.service"), "[Unit]\nRequires=codex-login@w.socket\nAfter=codex-login@w.socket\n"+
		"[Service]\nBindReadOnlyPaths=-/run/codex-login-own/w.sock:/run/codex-broker-run/w/login.sock\n"+
		"Environment=CODEX_LOGIN=/run/codex-broker-run/w/login.sock\n"+
		"[Service]\nUser=cb-w\nEnvironment=HTTPS_PROXY=http://p:1\n"+
		"Environment=CODEX_BROKER_MADE_OF=login\n")
	assert.NotContains(t, read("codex-broker@w.service"), "RuntimeDirectory", "the daemon reads its state")
	assert.Contains(t, read("codex-login@w.service"), "[Service]\nUser=cl-w\nEnvironment=HTTPS_PROXY=http://p:1\n")
	link, err := os.Readlink(filepath.Join(dir, "codex.target.wants", "codex-login@w.socket"))
	require.NoError(t, err)
	assert.Equal(t, "/usr/lib/systemd/system/codex-login@.socket", link)
}

// A worker with the login of another account has the way to that login; the units of the other one do not run.
func TestGenerateServed(t *testing.T) {
	settings, dir := t.TempDir(), t.TempDir()
	for _, name := range []string{"a", "b", "c"} {
		file := filepath.Join(settings, name+".toml")
		require.NoError(t, os.WriteFile(file, []byte("mode = \"plain\"\nnetwork = \"model\"\n"), 0o600))
	}
	require.NoError(t, Generate(settings, sharing.Hosts{"b": "a", "c": "a"}, nil, dir))
	read := func(unit string) string {
		text, err := os.ReadFile(filepath.Join(dir, unit+".d", "zz-broker.conf"))
		require.NoError(t, err)
		return string(text)
	}
	assert.Contains(t, read("codex-worker@a.service"), "\nEnvironment=\"CODEX_SERVES=b c\"\n")
	assert.Contains(t, read("codex-broker@a.service"), "[Unit]\nWants=codex-login@b.socket\n"+
		"After=codex-login@b.socket\nPartOf=codex-login@b.socket\nWants=codex-login@c.socket\n"+
		"After=codex-login@c.socket\nPartOf=codex-login@c.socket\n[Service]\nEnvironment=\"CODEX_SERVES=b c\"\n"+
		"BindReadOnlyPaths=-/run/codex-login-own/b.sock:/run/codex-broker-run/a/login-0.sock\n"+
		"BindReadOnlyPaths=-/run/codex-login-own/c.sock:/run/codex-broker-run/a/login-1.sock\n")
	assert.Contains(t, read("codex-worker@b.service"),
		"[Unit]\nConditionPathIsSymbolicLink=!"+dir+"/codex-worker@b.service.d/serving-worker\n")
	assert.Contains(t, read("codex-login@b.service"), "User=cl-b")
	assert.NoDirExists(t, filepath.Join(dir, "codex-broker@b.service.d"))
	assert.Equal(t, sharing.Hosts{"b": "a", "c": "a"}, sharing.Generated(dir, []string{"a", "b", "c"}))
}

// Every socket of a broker has an address that fits (unix(7)), whatever the names of accounts are. The unit of a login
// hands the login to a broker on the socket that its broker has, of its own worker or of another one, and on no other.
func TestSocketsOfLogins(t *testing.T) {
	settings, dir := t.TempDir(), t.TempDir()
	a, b := strings.Repeat("a", 64), strings.Repeat("b", 64)
	for _, name := range []string{a, b} {
		file := filepath.Join(settings, name+".toml")
		require.NoError(t, os.WriteFile(file, []byte("mode = \"plain\"\nnetwork = \"model\"\n"), 0o600))
	}
	require.NoError(t, Generate(settings, sharing.Hosts{b: a}, nil, dir))
	text, err := os.ReadFile(filepath.Join(dir, "codex-broker@"+a+".service.d", "zz-broker.conf"))
	require.NoError(t, err)
	var sockets []string
	for line := range strings.Lines(string(text)) {
		mount, is := strings.CutPrefix(strings.TrimSpace(line), "BindReadOnlyPaths=")
		if !is {
			continue
		}
		from, to, _ := strings.Cut(strings.TrimPrefix(mount, "-"), ":")
		assert.Less(t, len(to), 108)
		sockets = append(sockets, from)
	}
	assert.Equal(t, []string{paths.OwnLoginSocket(a), paths.OwnLoginSocket(b)}, sockets)
}
