package modelproxy

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// raw sends a request as it is, on a connection of its own, and returns the status of the answer.
func raw(t *testing.T, url, text string) int {
	t.Helper()
	conn, err := net.Dial("tcp", url[len("http://"):])
	require.NoError(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, text)
	require.NoError(t, err)
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	return res.StatusCode
}

// A tool that knows the token gets the key to no endpoint but those of the model, however it writes the request.
func TestOtherRequests(t *testing.T) {
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t.Errorf("the provider got %s %s", r.Method, r.RequestURI)
	}))
	defer provider.Close()
	l, err := New(Endpoint{BaseURL: provider.URL + "/v1", Key: "sk-key"}, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	url := start(t, l)
	for _, line := range []string{
		"GET /files", "GET /responses", "GET /responses/resp_1", "TRACE /responses", "DELETE /models",
		"POST /responses/../files", "POST /%2e%2e/v1/files", "POST //responses", "POST /responses/", "POST /responses%2Fcompact",
		"POST /respon%73es/x", "POST http://169.254.169.254/latest", "POST http://other/responses/x", "CONNECT other:443",
		"GET /", "POST /RESPONSES",
	} {
		status := raw(t, url, line+" HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+l.Token+"\r\nContent-Length: 0\r\n\r\n")
		assert.Contains(t, []int{http.StatusNotFound, http.StatusBadRequest}, status, line)
	}
	for _, head := range []string{"Upgrade: websocket\r\nConnection: Upgrade\r\n", "Upgrade: h2c\r\nConnection: Upgrade\r\n"} {
		status := raw(t, url, "POST /responses HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+l.Token+"\r\n"+head+"\r\n")
		assert.Equal(t, http.StatusNotFound, status, head)
	}
}

// The host of a request does not choose where it goes, and a redirect of the provider is codex's to read.
func TestWhereRequestsGo(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("another server got %s with %q", r.RequestURI, r.Header.Get("Authorization"))
	}))
	defer elsewhere.Close()
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, "/v1/responses", r.URL.Path)
		http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
	}))
	defer provider.Close()
	l, err := New(Endpoint{BaseURL: provider.URL + "/v1", Key: "sk-key"}, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	for _, target := range []string{"/responses", elsewhere.URL + "/responses"} {
		status := raw(t, start(t, l), "POST "+target+" HTTP/1.1\r\nHost: "+elsewhere.Listener.Addr().String()+
			"\r\nAuthorization: Bearer "+l.Token+"\r\nContent-Length: 0\r\n\r\n")
		assert.Equal(t, http.StatusTemporaryRedirect, status)
	}
}

// Other users of the machine, who reach the port and have no token, do not keep codex out.
func TestStrangersHinderNobody(t *testing.T) {
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") }))
	defer provider.Close()
	l, err := New(Endpoint{BaseURL: provider.URL}, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	url := start(t, l)
	codex := ask(t, url+"/responses", l.Token, "") // its connection stays open
	_, err = io.Copy(io.Discard, codex.Body)
	require.NoError(t, err)
	var first net.Conn
	for range 2 * strangerLimit {
		conn, err := net.Dial("tcp", url[len("http://"):])
		require.NoError(t, err)
		defer conn.Close()
		if first == nil {
			first = conn
		}
	}
	assert.Equal(t, http.StatusOK, ask(t, url+"/responses", l.Token, "").StatusCode)
	_, err = first.Read(make([]byte, 1))
	require.Error(t, err, "the oldest one is closed")
	res := ask(t, url+"/responses", "wrong", "")
	assert.Equal(t, http.StatusUnauthorized, res.StatusCode)
	assert.True(t, res.Close)
}
