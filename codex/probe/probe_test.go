package probe

import (
	"context"
	"net"
	nethttp "net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParse(t *testing.T) {
	for _, value := range []string{
		"appserver:unix:/run/s", "tcp:127.0.0.1:7233", "tcp:[::1]:7233", "tcp:localhost:postgresql", "unix:/run/s",
		"http://localhost:8080", "https://localhost/healthz", "http:https://localhost:8443/healthz", "http:unix:/run/s",
		"http:unix:/run/s:/healthz", "grpc:127.0.0.1:7233", "grpc:[::1]:7233/a.B", "grpc:unix:/run/s",
		"grpc:unix:/run/s:/a.B", "grpcs:localhost:7233/a.B", "temporal:127.0.0.1:7233",
		"temporal:127.0.0.1:7233/orders", "temporal:unix:/run/s:/orders", "exec:pg_isready -q",
	} {
		p, err := Parse(value, Options{})
		require.NoError(t, err, value)
		assert.NotNil(t, p.Ready, value)
		assert.NotNil(t, p.Alive, value)
	}
}

// An error shows the form of the kind.
func TestParseErrors(t *testing.T) {
	for value, want := range map[string]string{
		"":                      `unknown kind "": want appserver:unix:PATH, tcp:HOST:PORT, unix:PATH, http:URL,`,
		"grcp:127.0.0.1:1":      `unknown kind "grcp": `,
		"appserver:/run/s":      "want appserver:unix:/absolute/path",
		"tcp:7233":              "want tcp:HOST:PORT",
		"tcp:127.0.0.1:":        "want tcp:HOST:PORT",
		"tcp:127.0.0.1:0":       "want tcp:HOST:PORT",
		"tcp:127.0.0.1:65536":   "want tcp:HOST:PORT",
		"unix:run/s":            "want unix:/absolute/path",
		"http:localhost":        "want http:URL",
		"https:localhost":       "want http:URL",
		"http:ftp://localhost":  "want http:URL",
		"http:unix:s":           "want http:unix:/absolute/path",
		"http:unix:/s:healthz":  "want http:unix:/absolute/path",
		"grpc:7233":             "want grpc:HOST:PORT",
		"grpc:http://h:1":       "want grpc:HOST:PORT",
		"grpc:unix:s":           "want grpc:HOST:PORT",
		"grpc:unix:/s:a.B":      "want grpc:HOST:PORT",
		"grpcs:unix:/s":         "want grpcs:HOST:PORT",
		"grpcs:localhost":       "want grpcs:HOST:PORT",
		"temporal:127.0.0.1":    "want temporal:HOST:PORT",
		"temporal:unix:/s:test": "want temporal:HOST:PORT",
		"exec: ":                "want exec:LINE",
	} {
		_, err := Parse(value, Options{})
		assert.ErrorContains(t, err, want, value)
	}
}

// Every kind of the forms is one of Parse.
func TestKinds(t *testing.T) {
	for _, kind := range Kinds() {
		_, err := Parse(kind, Options{})
		assert.ErrorContains(t, err, "want "+kind)
	}
	assert.Contains(t, Kinds(), "grpcs:")
}

func TestOptionsUsedBy(t *testing.T) {
	parse := func(value string) Probe {
		p, err := Parse(value, Options{})
		require.NoError(t, err)
		return p
	}
	tcp, http, https := parse("tcp:a:1"), parse("http://a"), parse("https://a")
	require.NoError(t, Options{Version: "1"}.UsedBy())
	require.NoError(t, Options{Statuses: []int{200}, Body: "ok"}.UsedBy(tcp, http))
	require.NoError(t, Options{Body: "ok"}.UsedBy(parse("http:unix:/s")))
	require.NoError(t, Options{Statuses: []int{200}, CA: "/ca"}.UsedBy(https))
	require.NoError(t, Options{CA: "/ca"}.UsedBy(parse("grpcs:a:1")))
	for option, err := range map[string]error{
		"status": Options{Statuses: []int{200}}.UsedBy(tcp),
		"body":   Options{Body: "ok"}.UsedBy(parse("grpc:a:1")),
		"ca":     Options{CA: "/ca"}.UsedBy(tcp, http),
	} {
		var wrong *OptionError
		require.ErrorAs(t, err, &wrong)
		assert.Equal(t, option, wrong.Option)
		assert.ErrorContains(t, err, option+": only ")
	}
	assert.EqualError(t, Options{Statuses: []int{200, 600}}.UsedBy(http),
		"status: 600 is no status of HTTP: want 100 to 599")
	assert.EqualError(t, Options{CA: "ca"}.UsedBy(https), "ca: give an absolute path")
}

func TestParseStatuses(t *testing.T) {
	statuses, err := ParseStatuses("200, 204")
	require.NoError(t, err)
	assert.Equal(t, []int{200, 204}, statuses)
	for _, text := range []string{"", "200,", "2xx", "200 204"} {
		_, err := ParseStatuses(text)
		assert.ErrorContains(t, err, "such as 200 or 200,204", text)
	}
}

// The target and the options reach the check.
func TestProbes(t *testing.T) {
	server := httptest.NewServer(nethttp.HandlerFunc(func(w nethttp.ResponseWriter, r *nethttp.Request) {
		_, _ = w.Write([]byte("path " + r.URL.Path))
	}))
	defer server.Close()
	address := strings.TrimPrefix(server.URL, "http://")
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	require.NoError(t, err)
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for value, want := range map[string]string{
		"tcp:" + address:                 "",
		"unix:" + socket:                 "",
		"unix:" + socket + ".":           "no such file",
		server.URL + "/healthz":          "",
		server.URL + "/":                 `200 OK, and the body lacks "health"`,
		"grpc:" + address:                "the server speaks HTTP/1, not gRPC",
		"grpcs:" + address:               "does not look like a TLS handshake",
		"temporal:" + address:            "the server speaks HTTP/1, not gRPC",
		"grpc:unix:" + socket + ".":      "no such file",
		"exec:exit 3":                    "exit status 3",
		"exec:true":                      "",
		"appserver:unix:" + socket + ".": "no such file",
	} {
		p, err := Parse(value, Options{Body: "health"})
		require.NoError(t, err)
		for _, f := range []func(context.Context) (string, error){p.Ready, p.Alive} {
			_, err := f(ctx)
			if want == "" {
				assert.NoError(t, err, value)
			} else {
				assert.ErrorContains(t, err, want, value)
			}
		}
	}
}
