package workers

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"codex-proxy/probes"
	"codex-proxy/test/bed"
)

// unreachable are endpoints that cannot be reached, each by the name of the reason, which its worker has, too.
var unreachable = map[string]string{
	"refused":      "https://127.0.0.1:9/v1",
	"unresolvable": "https://nowhere.invalid/v1",
	"no-answer":    "https://127.0.0.1:18444/v1",
	"certificate":  "https://127.0.0.1:" + providerPort + "/v1",
	"tls":          "https://127.0.0.1:18445/v1",
	"proxy":        "https://" + providerHost + "/v1",
}

// An endpoint that cannot be reached: the client's error has the reason in words and comes soon; journal, status, metrics
// and doctor have it by its name, until the endpoint answers.
func TestUnreachable(t *testing.T) { bed.EitherSuite(t, testUnreachable) }

func testUnreachable(t *testing.T, suite string) {
	b := bed.New(t, suite, providerWorker, bed.Patient)
	certificate, root := bed.Certify(t, providerHost)
	write(b, "/etc/ssl/provider.pem", string(root))
	write(b, "/etc/codex-proxy/key", providerKey+"\n")
	b.DropIn("codex-worker@.service", "key", "[Service]\nLoadCredential=key:/etc/codex-proxy/key\n")
	const site = "/usr/local/lib/systemd/system/codex-worker@proxy.service.d"
	b.MustRun(t, "mkdir", "-p", site)
	write(b, site+"/proxy.conf", "[Service]\nEnvironment=ALL_PROXY=socks5://127.0.0.1:9\n")
	l, err := b.Listen("tcp", "127.0.0.1:"+providerPort)
	require.NoError(t, err)
	b.ServeTLSOn(l, certificate, http.NotFoundHandler())
	silent(t, b, "127.0.0.1:18445")
	blackHole(t, b, "127.0.0.1:18444")
	b.MustRun(t, "rm", bed.WorkerFile)
	b.MustRun(t, "systemctl", "disable", "--quiet", bed.WorkerUnit, "codex-worker@default.socket")
	for reason, url := range unreachable {
		worker := strings.NewReplacer("https://"+providerHost+":"+providerPort+"/v1", url, "native", "plain", `model = "`+bed.Model,
			`model = "`+reason).Replace(providerWorker)
		write(b, "/etc/codex-proxy/workers/"+reason+".toml", worker)
		b.MustRun(t, "systemctl", "enable", "--quiet", "codex-worker@"+reason+".service", "codex-worker@"+reason+".socket")
	}
	b.MustRun(t, "systemctl", "start", "codex.target")
	b.Until("all are ready", func(_ int, r probes.Report) bool {
		ready := 0
		for _, w := range r.Workers {
			if w.Ready {
				ready++
			}
		}
		return ready == len(unreachable)
	})
	var all sync.WaitGroup
	for reason := range unreachable {
		all.Go(func() {
			began := time.Now()
			status, body := askModel(b, reason)
			took := time.Since(began)
			t.Log(reason, took, body)
			assert.Equal(t, http.StatusServiceUnavailable, status, "%s: %s", reason, body)
			assert.Less(t, took, 20*time.Second, "%s: 10 s, and as much for a busy machine", reason)
		})
	}
	all.Wait()
	for reason := range unreachable {
		unit := "codex-broker@" + reason + ".service"
		assert.Contains(t, b.UnitJournal(unit), "reason="+reason)
		b.UntilShown(unit, func(v map[string]string) bool { return strings.Contains(v["StatusText"], "("+reason+"): ") }, "StatusText")
		b.UntilMetric(fmt.Sprintf("codex_model_unreachable_total{reason=%q,worker=%[1]q} 1", reason))
		b.UntilMetric(fmt.Sprintf("codex_model_reachable{worker=%q} 0", reason))
		b.UntilMetric(fmt.Sprintf("codex_model_requests_total{kind=\"turn\",worker=%q} 1", reason))
	}
	testStatusOfBrokers(t, b)
	d, _ := bed.Doctor(b)
	for reason := range unreachable {
		remedy, found := d.Remedy("brokers", "broker "+reason+": cannot reach https://")
		assert.True(t, found, "%s: %+v", reason, d.Findings)
		assert.NotEmpty(t, remedy)
	}
}

// testStatusOfBrokers reads `codex-proxy status` in both forms.
func testStatusOfBrokers(t *testing.T, b *bed.Bed) {
	t.Helper()
	var report probes.Report
	require.NoError(t, json.Unmarshal([]byte(b.MustRun(t, "codex-proxy", "status", "--json")), &report))
	require.Len(t, report.Brokers, len(unreachable))
	text := b.MustRun(t, "codex-proxy", "status")
	for _, broker := range report.Brokers {
		assert.Equal(t, "active", broker.ActiveState)
		require.NotNil(t, broker.Failure, broker.Name)
		assert.Equal(t, broker.Name, broker.Failure.Reason)
		assert.Regexp(t, `(?m)^`+broker.Name+` +active \(running\) +https://\S+ +\d+ +0 +1 +`+broker.Name+`, \d+s ago$`, text)
	}
}

// askModel sends a request to the worker that has the model.
func askModel(b *bed.Bed, model string) (status int, body string) {
	res, body := b.AskThrough(b.T, http.MethodPost, bed.ChatPath,
		fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"hello"}]}`, model))
	return res.StatusCode, body
}

// silent accepts connections at an address, and sends nothing.
func silent(t *testing.T, b *bed.Bed, address string) *net.TCPListener {
	t.Helper()
	l, err := b.Listen("tcp", address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l.(*net.TCPListener)
}

// blackHole accepts no connection at an address: its queue has one place, which is taken (listen(2)).
func blackHole(t *testing.T, b *bed.Bed, address string) {
	t.Helper()
	conn, err := silent(t, b, address).SyscallConn()
	require.NoError(t, err)
	require.NoError(t, conn.Control(func(fd uintptr) { err = unix.Listen(int(fd), 0) }))
	require.NoError(t, err)
	taken, err := b.DialContext(t.Context(), "tcp", address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = taken.Close() })
}
