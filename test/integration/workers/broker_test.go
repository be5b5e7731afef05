package workers

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"codex-proxy/test/bed"
)

const (
	providerHost = "model.test"
	providerPort = "18443"
	providerKey  = "sk-of-the-provider-0123456789"
	brokerUnit   = "codex-broker@default.service"
)

// providerWorker has an https endpoint with an authority and a key of its own.
const providerWorker = `network = "model"
mode = "native"
codex_path = "` + bed.CodexDir + `/bin/codex"
model = "` + bed.Model + `"
[provider]
name = "scripted"
base_url = "https://` + providerHost + ":" + providerPort + `/v1"
ca_file = "/etc/ssl/provider.pem"
credential = "key"
`

// provider plays the endpoint in front of the model server.
type provider struct {
	*bed.Bed
	keys chan string // the protocol and the Authorization of each request

	mu   sync.Mutex
	held chan chan struct{} // gets a channel for each request, which waits until that is closed; nil: none waits
}

func (p *provider) hold(held chan chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = held
}

func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.keys <- r.Proto + " " + r.Header.Get("Authorization")
	p.mu.Lock()
	held := p.held
	p.mu.Unlock()
	if held != nil {
		goOn := make(chan struct{})
		held <- goOn
		select {
		case <-goOn:
		case <-r.Context().Done():
			return
		}
	}
	p.Models.Handler().ServeHTTP(w, r)
}

// providerBed is a bed whose worker uses that endpoint.
func providerBed(t *testing.T, suite string) *provider {
	t.Helper()
	b := bed.New(t, suite, providerWorker, bed.Patient)
	certificate, root := bed.Certify(t, providerHost)
	write(b, "/etc/ssl/provider.pem", string(root))
	write(b, "/etc/codex-proxy/key", providerKey+"\n")
	b.MustRun(t, "mkdir", "-p", "/run/nscd")
	b.AppendTo("/etc/hosts", "127.0.0.1 "+providerHost+"\n")
	b.DropIn("codex-worker@.service", "key", "[Service]\nLoadCredential=key:/etc/codex-proxy/key\n"+
		"Environment=HTTP_PROXY=http://192.0.2.1:9\n")
	l, err := b.Listen("tcp", "127.0.0.1:"+providerPort)
	require.NoError(t, err)
	p := &provider{Bed: b, keys: make(chan string, 1000)}
	b.ServeTLSOn(l, certificate, p)
	b.Start()
	return p
}

// A worker with network = "model" reaches the provider, through its broker, and nothing else; codex does not have the key.
func TestBroker(t *testing.T) { bed.BothSuites(t, testBroker) }

func testBroker(t *testing.T, suite string) {
	p := providerBed(t, suite)
	b := p.Bed
	status, _, answer := b.Chat(false, "hello")
	require.Equal(t, http.StatusOK, status, "%s\n%s\n%s", answer, b.UnitJournal(brokerUnit), b.UnitJournal(bed.WorkerUnit))
	assert.Equal(t, "HTTP/2.0 Bearer "+providerKey, <-p.keys)

	// The network of codex.
	codex := b.Codex()
	reach := func(address string) error {
		host, port, _ := strings.Cut(address, ":")
		_, _, err := b.Run(t.Context(), "nsenter", "-t", fmt.Sprint(codex.Inside), "-n", "timeout", "5", "bash", "-c",
			"exec 3<>/dev/tcp/"+host+"/"+port)
		return err
	}
	assert.NoError(t, reach("127.0.0.1:8790"))
	for _, address := range []string{"127.0.0.1:" + providerPort, bed.ModelAddr, "127.0.0.1:8787", "1.1.1.1:443"} {
		assert.Error(t, reach(address), address)
	}
	assert.Contains(t, script(b, "cat /proc/net/dev; (exec 3<>/dev/tcp/127.0.0.1/"+providerPort+") || echo closed"), "closed")

	assert.Equal(t, "0\n", b.MustRun(t, "stat", "-c", "%a", fmt.Sprintf("/proc/%d/root/run/nscd", codex.Inside)), "hidden")

	// The key.
	for _, where := range []string{
		"tr '\\0' '\\n' </proc/%d/environ; tr '\\0' '\\n' </proc/%[1]d/cmdline",
		"cat /proc/%d/root/run/credentials/*/* 2>/dev/null; grep -rh sk- /var/lib/codex-worker/ 2>/dev/null",
	} {
		out, _, _ := b.Run(t.Context(), "bash", "-c", fmt.Sprintf(where, codex.Inside)+"; true")
		assert.NotContains(t, out, providerKey, where)
	}
	assert.NotContains(t, b.MustRun(t, "bash", "-c", memoryOf(codex.Inside)), "found")
	assert.Contains(t, b.MustRun(t, "bash", "-c", memoryOf(b.OnlyProcess(brokerUnit).Inside)), "found", "the search finds it")

	// Exposure.
	assert.Regexp(t, `exposure level for codex-broker@default.service: (0|1\.[0-5]) `,
		b.MustRun(t, "systemd-analyze", "security", "--no-pager", brokerUnit))

	testBrokerEnds(t, p)
	testBrokerRestarts(t, b)
	testFailsClosed(t, b)
	testWorkerEnds(t, b)
}

// testBrokerEnds kills the broker: no request fails whose answer the endpoint has not begun.
func testBrokerEnds(t *testing.T, p *provider) {
	b := p.Bed
	ask := func() <-chan string {
		answer := make(chan string, 1)
		go func() {
			status, _, body := b.Chat(false, "hello")
			answer <- fmt.Sprint(status, " ", body)
		}()
		return answer
	}
	kill := func() {
		b.Signal(b.OnlyProcess(brokerUnit), unix.SIGKILL)
	}
	held := make(chan chan struct{}, 10)
	p.hold(held)
	answer := ask()
	<-held
	p.hold(nil)
	kill()
	assert.Regexp(t, "^200 ", <-answer, "in mid-turn")
	kill()
	assert.Regexp(t, "^200 ", <-ask(), "between turns")
}

// testBrokerRestarts restarts the broker: the answers in flight are whole.
func testBrokerRestarts(t *testing.T, b *bed.Bed) {
	before := b.Properties(brokerUnit, "MainPID")["MainPID"]
	h := bed.Hold(b, "restart")
	done := b.Begin("systemctl", "restart", brokerUnit)
	b.UntilShow(brokerUnit, "SubState", "stop-sigterm")
	status, _, _ := b.Chat(false, "hello")
	assert.Equal(t, http.StatusOK, status, "while it drains")
	h.Finish(b)
	require.NoError(t, <-done)
	assert.NotEqual(t, before, b.Properties(brokerUnit, "MainPID")["MainPID"])
}

// testFailsClosed changes the network of the worker without a daemon-reload: it does not start, with the reason.
func testFailsClosed(t *testing.T, b *bed.Bed) {
	onHost := strings.Replace(providerWorker, "network = \"model\"\n", "", 1)
	for _, change := range []struct{ worker, reason, broker string }{
		{onHost, "default.toml has changed: `systemctl daemon-reload`, then `systemctl restart", "inactive"},
		{providerWorker, "and the unit still has the network of the machine: `systemctl daemon-reload`", "active"},
	} {
		write(b, bed.WorkerFile, change.worker)
		_, _, err := b.Run(t.Context(), "systemctl", "restart", bed.WorkerUnit)
		require.Error(t, err)
		assert.Contains(t, b.UnitJournal(bed.WorkerUnit), change.reason)
		b.MustRun(t, "systemctl", "daemon-reload")
		restartWith(b, change.worker)
		status, _, body := b.Chat(false, "hello")
		assert.Equal(t, http.StatusOK, status, body)
		b.UntilShow(brokerUnit, "ActiveState", change.broker)
	}
}

// testWorkerEnds ends the worker without a job of systemd, as for a pause: the broker ends, too, and reads its settings
// again with the worker.
func testWorkerEnds(t *testing.T, b *bed.Bed) {
	b.DropIn("codex-worker@.service", "once", "[Service]\nRestart=no\n")
	before := b.Properties(brokerUnit, "MainPID")["MainPID"]
	require.NotEqual(t, "0", before)
	b.MustRun(t, "systemctl", "kill", "--signal=KILL", bed.WorkerUnit)
	b.UntilShown(brokerUnit, func(v map[string]string) bool { return v["MainPID"] != before }, "MainPID")
}

// memoryOf prints "found" if the memory of the process has the key.
func memoryOf(pid int) string {
	return fmt.Sprintf(`while IFS=' -' read -r a b p _; do case $p in r*) 
dd if=/proc/%[1]d/mem bs=4096 iflag=skip_bytes,count_bytes skip=$((16#$a)) count=$((16#$b - 16#$a)) 2>/dev/null;; esac
done </proc/%[1]d/maps | grep -qaF %[2]s && echo found; true`, pid, providerKey)
}
