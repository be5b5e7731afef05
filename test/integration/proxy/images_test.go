package proxy

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"image"
	"image/png"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/openai/openai-go/v3"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"codex-proxy/proxy/fetch"
	"codex-proxy/proxy/openai"
	"codex-proxy/test/await"
	"codex-proxy/test/bed"
)

const (
	fetchUnit = "codex-proxy-fetch.service"
	imageAddr = "127.0.0.7:9000"
	onlyThat  = "[images]\nallow_private = [\"127.0.0.7/32\"]\n"
)

var picture = noise()

// noise is a PNG that does not compress.
func noise() []byte {
	pixels := image.NewGray(image.Rect(0, 0, 256, 256))
	random := rand.NewChaCha8([32]byte{})
	for i := range pixels.Pix {
		pixels.Pix[i] = byte(random.Uint64())
	}
	var b bytes.Buffer
	if err := png.Encode(&b, pixels); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// gallery is a host of a picture in the machine's network.
type gallery struct {
	asked   atomic.Int32
	held    chan struct{} // a token for each request with ?hold
	release chan struct{} // a token lets one of them go on
}

func startGallery(b *bed.Bed) *gallery {
	b.T.Helper()
	l, err := b.Listen("tcp", imageAddr)
	require.NoError(b.T, err)
	g := &gallery{held: make(chan struct{}, 8), release: make(chan struct{}, 8)}
	s := http.Server{Handler: g}
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	b.T.Cleanup(func() {
		s.Close()
		assert.ErrorIs(b.T, <-done, http.ErrServerClosed)
	})
	return g
}

func (g *gallery) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.asked.Add(1)
	if to := r.URL.Query().Get("to"); to != "" {
		http.Redirect(w, r, to, http.StatusFound)
		return
	}
	if r.URL.Query().Has("text") {
		fmt.Fprint(w, "<html>secret")
		return
	}
	if r.URL.Query().Has("hold") {
		g.held <- struct{}{}
		select {
		case <-g.release:
		case <-r.Context().Done():
			return
		}
	}
	_, _ = w.Write(picture)
}

// awaitHeld waits until a request with ?hold has come.
func (g *gallery) awaitHeld(t *testing.T) {
	t.Helper()
	select {
	case <-g.held:
	case <-time.After(bed.Bound):
		require.Fail(t, "the host is never asked")
	}
}

// inline calls the installed fetcher, as the daemon does.
func inline(b *bed.Bed, url string) (string, error) {
	b.T.Helper()
	ctx, cancel := context.WithTimeout(b.T.Context(), bed.Bound)
	defer cancel()
	limits := fetch.Limits{Bytes: 10 << 20, Time: bed.Bound / 9} // a fetch may take twice that, before bound
	socket := fmt.Sprintf("/proc/%d/root/run/codex-proxy/fetch.socket", b.PID())
	return fetch.NewClient(socket, limits, prometheus.NewRegistry(), slog.New(slog.DiscardHandler)).Inline(ctx, url)
}

// reloadFetcher reloads the service. It returns when the fetcher of before, to which the reload has only sent a signal,
// takes no more requests.
func reloadFetcher(b *bed.Bed) {
	b.T.Helper()
	processes, err := b.Processes(fetchUnit)
	require.NoError(b.T, err)
	b.MustRun(b.T, "systemctl", "reload", bed.ProxyUnit)
	for _, p := range processes {
		await.True(b.T, func() bool { return !listens(p.Host, "/run/codex-proxy/fetch.socket") }, bed.Bound)
	}
}

// listens reports whether a process has the listening unix socket open.
func listens(pid int, path string) bool {
	sockets, _ := os.ReadFile(fmt.Sprintf("/proc/%d/net/unix", pid)) // there is none after the end of the process
	held, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	for line := range strings.Lines(string(sockets)) {
		f := strings.Fields(line) // number, references, protocol, flags, type, state, inode, path: proc_net(5)
		const accepts = "00010000"
		if len(f) < 8 || f[3] != accepts || f[7] != path {
			continue
		}
		for _, fd := range held {
			if to, _ := os.Readlink(fd); to == "socket:["+f[6]+"]" {
				return true
			}
		}
	}
	return false
}

func fetched(b *bed.Bed, url string) {
	b.T.Helper()
	got, err := inline(b, url)
	require.NoError(b.T, err, b.UnitJournal(fetchUnit))
	assert.Equal(b.T, "data:image/png;base64,"+base64.StdEncoding.EncodeToString(picture), got)
}

func unfetched(b *bed.Bed, url, code string) {
	b.T.Helper()
	_, err := inline(b, url)
	var known *openai.Error
	require.True(b.T, errors.As(err, &known), "%v", err)
	assert.Equal(b.T, code, known.Code, known.Message)
}

// A chat request names images by URL: the model endpoint gets their bytes in place of the
// URLs, and errors for clients name the image and its fault.
func TestImagesInChat(t *testing.T) {
	t.Parallel()
	testImagesInChat(t, bed.Oldest)
}

func testImagesInChat(t *testing.T, suite string) {
	b := bed.New(t, suite, bed.RealWorker, onlyThat)
	host := startGallery(b)
	b.Start()
	ask := func(urls ...string) error {
		parts := []sdk.ChatCompletionContentPartUnionParam{sdk.TextContentPart("what is this?")}
		for _, url := range urls {
			parts = append(parts, sdk.ImageContentPart(sdk.ChatCompletionContentPartImageImageURLParam{URL: url}))
		}
		client := b.Client()
		_, err := client.Chat.Completions.New(t.Context(), sdk.ChatCompletionNewParams{
			Model: bed.Model, Messages: []sdk.ChatCompletionMessageParamUnion{sdk.UserMessage(parts)},
		})
		return err
	}
	url := "http://" + imageAddr + "/"
	require.NoError(t, b.Models.Script("text noise"))
	require.NoError(t, ask(url+"?token=planted", url+"?to=/again"))
	sent := "data:image/png;base64," + base64.StdEncoding.EncodeToString(picture)
	assert.Equal(t, 2, strings.Count(string(bed.LastTurn(b.Models).Body.Raw), sent), "the model got something else")
	assert.EqualValues(t, 3, host.asked.Load())

	turns := len(b.Models.Turns())
	for url, code := range map[string]string{
		"http://169.254.169.254/latest/meta-data/": fetch.CodeAddress,
		url + "?to=http://127.0.0.1:8787/metrics":  fetch.CodeAddress,
		"http://127.0.0.7:9001/":                   fetch.CodeFailed,
		url + "?text":                              fetch.CodeType,
		"http://user:planted@127.0.0.7:9000/":      fetch.CodeURL,
	} {
		err := ask(url)
		var refusal *sdk.Error
		if assert.ErrorAs(t, err, &refusal, url) {
			assert.Equal(t, http.StatusBadRequest, refusal.StatusCode, url)
			assert.Equal(t, code, refusal.Code, url)
			assert.Equal(t, "messages[0].content[1].image_url.url", refusal.Param)
			assert.NotContains(t, refusal.RawJSON(), "secret", "what is no image reached the client")
		}
	}
	assert.Len(t, b.Models.Turns(), turns, "a turn was begun")
	_, metrics := b.Get("/metrics")
	assert.Contains(t, string(metrics), `codex_image_fetches_total{outcome="ok"} 2`)
	assert.Contains(t, string(metrics), `codex_image_fetches_total{outcome="image_address_forbidden"} 2`)
	assert.NotContains(t, b.Export(), "planted")

	require.NoError(t, b.WriteFile(bed.ConfigFile, []byte("[images]\nfetch = false\n"), 0o644))
	b.MustRun(t, "systemctl", "reload", bed.ProxyUnit)
	b.HTTP.CloseIdleConnections() // they belong to the old process
	var refusal *sdk.Error
	require.ErrorAs(t, ask(url), &refusal)
	assert.Equal(t, "image_fetch_disabled", refusal.Code)
	require.NoError(t, b.Models.Script("text noise"))
	assert.NoError(t, ask(sent), "a data URL needs no network")
}

// The fetcher reaches only the public network and the networks that the operator allows.
func TestImagesAddresses(t *testing.T) {
	t.Parallel()
	imagesAddresses(t, bed.Newest)
}

func imagesAddresses(t *testing.T, suite string) {
	b := bed.New(t, suite, bed.RealWorker, "")
	host := startGallery(b)
	b.Start()
	assert.Equal(t, "inactive", b.Properties(fetchUnit, "ActiveState")["ActiveState"], "nobody asked yet")
	unfetched(b, "http://"+imageAddr+"/", fetch.CodeAddress)
	unfetched(b, "http://127.0.0.1:8787/", fetch.CodeAddress)
	assert.Zero(t, host.asked.Load())
	assert.Equal(t, "active", b.Properties(fetchUnit, "ActiveState")["ActiveState"])

	require.NoError(t, b.WriteFile(bed.ConfigFile, []byte(onlyThat), 0o644))
	before := b.Properties(fetchUnit, "MainPID")
	reloadFetcher(b)
	fetched(b, "http://"+imageAddr+"/")
	assert.NotEqual(t, before, b.Properties(fetchUnit, "MainPID"))
	assert.EqualValues(t, 1, host.asked.Load())
	unfetched(b, "http://127.0.0.1:8787/", fetch.CodeAddress)
	unfetched(b, "http://"+imageAddr+"/?to=http://127.0.0.1:8787/livez", fetch.CodeAddress)
	unfetched(b, "http://"+imageAddr+"/?to=http://169.254.169.254/", fetch.CodeAddress)

	b.MustRun(t, "systemctl", "restart", bed.ProxyUnit)
	fetched(b, "http://"+imageAddr+"/")
	assert.NotContains(t, b.UnitJournal(fetchUnit), imageAddr, "what clients ask for is logged")
	assert.NotRegexp(t, "(?i)failed|error", b.UnitJournal(fetchUnit))
}

// The kernel, too, keeps the fetcher from networks that are not public: even root in its
// cgroup reaches no other.
func TestImagesFirewall(t *testing.T) { bed.BothSuites(t, testImagesFirewall) }

func testImagesFirewall(t *testing.T, suite string) {
	b := bed.New(t, suite, bed.RealWorker, onlyThat)
	host := startGallery(b)
	require.NoError(t, b.WriteFile("/etc/resolv.conf", []byte("nameserver 127.0.0.53\n"), 0o644))
	b.Start()
	fetched(b, "http://"+imageAddr+"/")
	allowed := b.Properties(fetchUnit, "IPAddressAllow")["IPAddressAllow"]
	assert.ElementsMatch(t, []string{"127.0.0.53/32", "127.0.0.7/32"}, strings.Fields(allowed))

	from := func(url string, most time.Duration) string {
		out, _, _ := b.Run(t.Context(), "sh", "-c", `echo $$ >/sys/fs/cgroup/system.slice/`+fetchUnit+`/cgroup.procs &&
			curl --silent --output /dev/null --max-time `+fmt.Sprint(most.Seconds())+` --write-out '%{http_code}' `+url)
		return out
	}
	assert.Equal(t, "200", from("http://"+imageAddr+"/", bed.Bound))
	assert.Equal(t, "000", from(bed.Base+"/livez", 2*time.Second), "the kernel lets it through")
	assert.EqualValues(t, 2, host.asked.Load())

	// An address whose permission was removed is not reached.
	require.NoError(t, b.WriteFile(bed.ConfigFile, nil, 0o644))
	b.MustRun(t, "systemctl", "restart", fetchUnit)
	assert.Equal(t, "127.0.0.53/32", b.Properties(fetchUnit, "IPAddressAllow")["IPAddressAllow"])
	assert.Equal(t, "000", from("http://"+imageAddr+"/", 2*time.Second))

	b.MustRun(t, "dpkg", "--purge", "codex-proxy")
	left := b.MustRun(t, "sh", "-c", "systemctl list-units --all --no-legend 'codex*'; find /run /etc /var/lib -name '*codex*' | grep -v /dpkg/ || true")
	assert.Empty(t, left, "the purge leaves something")
}

// A fetcher that was killed, stopped or idle starts for the next request.
func TestImagesSurvive(t *testing.T) { bed.EitherSuite(t, testImagesSurvive) }

func testImagesSurvive(t *testing.T, suite string) {
	b := bed.New(t, suite, bed.RealWorker, onlyThat)
	startGallery(b)
	require.NoError(t, b.WriteFile("/etc/systemd/system/"+fetchUnit+".d/idle.conf", []byte(
		"[Service]\nExecStart=\nExecStart=/usr/bin/codex-proxy fetch --config %d/config.toml --exit-idle-time 1s\n"),
		0o644))
	b.MustRun(t, "systemctl", "daemon-reload")
	b.Start()
	url := "http://" + imageAddr + "/"
	fetched(b, url)
	b.AwaitInactive(fetchUnit) // idle
	assert.Equal(t, "success", b.Properties(fetchUnit, "Result")["Result"])
	for range 3 {
		fetched(b, url)
		b.MustRun(t, "systemctl", "kill", "--signal=KILL", fetchUnit)
	}
	fetched(b, url)
	b.MustRun(t, "systemctl", "stop", fetchUnit)
	fetched(b, url)

	b.MustRun(t, "systemctl", "stop", "codex.target")
	b.AwaitInactive("codex-proxy-fetch.socket")
	b.AwaitInactive(fetchUnit)
	unfetched(b, url, "image_fetcher_unavailable")
	b.Start()
	fetched(b, url)
}

// A mistake in config.toml does not affect a running fetcher. A fetcher that starts with
// the mistake, or with no file at all, refuses with the reason, and systemd does not
// give it up. It works again once the file is mended, at once with a reload.
func TestImagesMistake(t *testing.T) {
	bed.EitherSuite(t, imagesMistake)
}

func imagesMistake(t *testing.T, suite string) {
	b := bed.New(t, suite, bed.RealWorker, onlyThat)
	startGallery(b)
	b.Start()
	url := "http://" + imageAddr + "/"
	fetched(b, url)
	require.NoError(t, b.WriteFile(bed.ConfigFile, []byte("[images]\nmax_bytes = 1\n"), 0o644))
	pid := b.Properties(fetchUnit, "MainPID")
	_, _, err := b.Run(t.Context(), "systemctl", "reload", bed.ProxyUnit)
	require.Error(t, err)
	fetched(b, url)
	assert.Equal(t, pid, b.Properties(fetchUnit, "MainPID"))

	b.MustRun(t, "systemctl", "stop", fetchUnit)
	for range 40 { // the start limit is 30
		unfetched(b, url, "image_fetcher_unavailable")
	}
	b.MustRun(t, "systemctl", "stop", fetchUnit) // it may otherwise just be ending by itself
	unfetched(b, url, "image_fetcher_unavailable")
	ask := func() { unfetched(b, url, "image_fetcher_unavailable") }
	bed.AssertRefuses(b, fetchUnit, "images.max_bytes = 1: must be between", ask)
	require.NoError(t, b.WriteFile(bed.ConfigFile, []byte(onlyThat), 0o644))
	reloadFetcher(b)
	fetched(b, url)

	b.MustRun(t, "mv", bed.ConfigFile, "/root/")
	b.MustRun(t, "systemctl", "stop", fetchUnit)
	unfetched(b, url, "image_fetcher_unavailable")
	bed.AssertRefuses(b, fetchUnit, "open "+bed.ConfigFile+": no such file", ask)
	b.MustRun(t, "mv", "/root/config.toml", bed.ConfigFile)
	b.AwaitInactive(fetchUnit)
	assert.Equal(t, "success", b.Properties(fetchUnit, "Result")["Result"])
	fetched(b, url)
}

// systemd gives up a fetcher that cannot start, and the remedy of the doctor brings it
// back.
func TestImagesStartLimit(t *testing.T) { bed.BothSuites(t, testImagesStartLimit) }

func testImagesStartLimit(t *testing.T, suite string) {
	b := bed.New(t, suite, bed.RealWorker, onlyThat)
	startGallery(b)
	b.Start()
	dropIn := "/run/systemd/system/" + fetchUnit + ".d/broken.conf"
	require.NoError(t, b.WriteFile(dropIn, []byte("[Service]\nExecStartPre=/bin/sh -c 'echo told here; false'\n"),
		0o644))
	b.MustRun(t, "systemctl", "daemon-reload")
	unfetched(b, "http://"+imageAddr+"/", "image_fetcher_unavailable")
	b.UntilShow("codex-proxy-fetch.socket", "ActiveState", "failed")
	status, _ := b.Readyz()
	assert.Equal(t, http.StatusOK, status)

	b.MustRun(t, "rm", dropIn)
	b.MustRun(t, "systemctl", "daemon-reload")
	look, mend, _ := strings.Cut(bed.DoctorFinds(b, "units", "codex-proxy-fetch.socket: has failed (service-start-limit-hit)"),
		", and mend the cause; then ")
	assert.Contains(t, b.MustRun(t, "sh", "-ec", look), "told here")
	bed.Follow(b, mend)
	fetched(b, "http://"+imageAddr+"/")
}

// A fetch in flight outlives the fetcher: it is repeated when the fetcher is killed, and
// completed when the fetcher is reloaded; later fetches wait.
func TestImagesInFlight(t *testing.T) { bed.EitherSuite(t, testImagesInFlight) }

func testImagesInFlight(t *testing.T, suite string) {
	b := bed.New(t, suite, bed.RealWorker, onlyThat+"timeout = \"1m\"\n") // a busy machine takes its time to reload
	host := startGallery(b)
	b.Start()
	begin := func(url string) chan error {
		done := make(chan error, 1)
		go func() { _, err := inline(b, url); done <- err }()
		return done
	}
	first := begin("http://" + imageAddr + "/?hold")
	host.awaitHeld(t)
	b.MustRun(t, "systemctl", "kill", "--signal=KILL", fetchUnit)
	host.awaitHeld(t) // again
	require.Empty(t, first)

	pid := b.Properties(fetchUnit, "MainPID")
	reloadFetcher(b)
	second := begin("http://" + imageAddr + "/?hold")
	require.Empty(t, first)
	host.release <- struct{}{}
	assert.NoError(t, <-first)
	host.awaitHeld(t)
	host.release <- struct{}{}
	assert.NoError(t, <-second)
	assert.NotEqual(t, pid, b.Properties(fetchUnit, "MainPID"))
	assert.EqualValues(t, 3, host.asked.Load())
}

// The daemon still has no network, and the fetcher has no access to the rest of the
// service.
func TestImagesIsolation(t *testing.T) { bed.BothSuites(t, testImagesIsolation) }

func testImagesIsolation(t *testing.T, suite string) {
	b := bed.New(t, suite, bed.RealWorker, onlyThat)
	startGallery(b)
	b.Start()
	fetched(b, "http://"+imageAddr+"/")

	daemon := b.Properties(bed.ProxyUnit, "MainPID", "PrivateNetwork", "IPAddressDeny")
	assert.Equal(t, "yes", daemon["PrivateNetwork"])
	assert.ElementsMatch(t, []string{"0.0.0.0/0", "::/0"}, strings.Fields(daemon["IPAddressDeny"]))
	devices := b.MustRun(t, "cat", "/proc/"+daemon["MainPID"]+"/net/dev")
	assert.Equal(t, []string{"lo:"}, regexp.MustCompile(`\w+:`).FindAllString(devices, -1))
	routes := b.MustRun(t, "cat", "/proc/"+daemon["MainPID"]+"/net/route")
	assert.Equal(t, 1, strings.Count(routes, "\n"), "a route: %s", routes)

	fetcher := b.Properties(fetchUnit, "MainPID", "DynamicUser")["MainPID"]
	inside := func(args ...string) error {
		_, _, err := b.Run(t.Context(), append([]string{"nsenter", "--target=" + fetcher, "--mount", "--user",
			"--preserve-credentials"}, args...)...)
		return err
	}
	assert.NoError(t, inside("cat", "/etc/resolv.conf"))
	for _, path := range []string{
		"/etc/codex-proxy/config.toml", "/run/codex-proxy/default.sock", "/run/codex-proxy/control/socket",
		"/run/dbus/system_bus_socket", "/var/lib/codex-worker/default",
	} {
		assert.Error(t, inside("stat", path), path)
	}
	status := b.MustRun(t, "cat", "/proc/"+fetcher+"/status")
	assert.Regexp(t, `(?m)^CapBnd:\s+0+$`, status)
	assert.Regexp(t, `(?m)^Groups:\s*(\d+ ?)?$`, status)
	assert.Equal(t, bed.Trim(b.MustRun(t, "stat", "--format=%a %U:%G", "/run/codex-proxy/fetch.socket")),
		"660 root:codex-proxy")
	var st unix.Stat_t
	require.NoError(t, unix.Stat(fmt.Sprintf("/proc/%d", host(b, fetchUnit)), &st))
	assert.GreaterOrEqual(t, st.Uid, uint32(61184), "not a dynamic user")
}

// host is the PID on the host of the main process of a unit.
func host(b *bed.Bed, unit string) int {
	b.T.Helper()
	processes, err := b.Processes(unit)
	require.NoError(b.T, err)
	require.NotEmpty(b.T, processes)
	return processes[0].Host
}
