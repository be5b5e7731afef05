package check

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	neturl "net/url"
	"slices"
)

// bodyLimit bounds the bytes of an answer that a check reads, so that a server which
// sends without end does not delay it.
const bodyLimit = 64 << 10

// HTTPAnswer is an answer that passes.
type HTTPAnswer struct {
	Statuses    []int  // empty: 200 to 399
	Body        string // text that the first 64 KiB of the body contain
	Authorities string // for https: the path of a PEM file; empty: the system's
}

// HTTP passes when GET url is answered as wanted. Redirects are answers and are not
// followed.
func HTTP(url string, want HTTPAnswer) Func {
	return want.check(url, "http "+withoutPassword(url), "tcp", "")
}

// HTTPUnix is HTTP over the unix socket at path. It requests target, such as
// "/healthz".
func HTTPUnix(path, target string, want HTTPAnswer) Func {
	return want.check("http://localhost"+target, "http "+path+target, "unix", path)
}

// check makes a new connection for each call: one kept open does not prove that the server still accepts. Without
// address it uses the address of the URL.
func (a HTTPAnswer) check(url, detail, network, address string) Func {
	dial := func(ctx context.Context, _, host string) (net.Conn, error) {
		if address != "" {
			host = address
		}
		return dialer.DialContext(ctx, network, host)
	}
	client := &http.Client{
		Transport: &http.Transport{
			DialContext: dial, DialTLSContext: a.dialTLS(dial), ForceAttemptHTTP2: true,
			DisableKeepAlives: true, MaxResponseHeaderBytes: bodyLimit,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return func(ctx context.Context) (string, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return "", err
		}
		response, err := client.Do(request)
		if err != nil {
			return "", err
		}
		defer response.Body.Close()
		body, err := io.ReadAll(io.LimitReader(response.Body, bodyLimit))
		if err != nil {
			return "", fmt.Errorf("GET %s: cannot read the body: %w", request.URL.Redacted(), err)
		}
		if err := a.wrong(response, body); err != nil {
			return "", fmt.Errorf("GET %s: %w", request.URL.Redacted(), err)
		}
		return detail, nil
	}
}

// withoutPassword is a URL for people: every user can read the status of a unit.
func withoutPassword(address string) string {
	u, err := neturl.Parse(address)
	if err != nil || u.User == nil {
		return address
	}
	return u.Redacted()
}

type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

func (a HTTPAnswer) dialTLS(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		host, _, _ := net.SplitHostPort(address)
		return secure(ctx, conn, host, a.Authorities, "h2", "http/1.1")
	}
}

// wrong returns how the answer differs from the wanted one.
func (a HTTPAnswer) wrong(response *http.Response, body []byte) error {
	status := response.StatusCode
	switch {
	case len(a.Statuses) == 0 && (status < 200 || status > 399):
		return fmt.Errorf("%s", response.Status)
	case len(a.Statuses) != 0 && !slices.Contains(a.Statuses, status):
		return fmt.Errorf("%s, want status %s", response.Status, list(a.Statuses))
	case !bytes.Contains(body, []byte(a.Body)):
		return fmt.Errorf("%s, and the body lacks %q", response.Status, a.Body)
	default:
		return nil
	}
}

// list writes numbers for people: "200 or 204".
func list(numbers []int) string {
	text := ""
	for i, n := range numbers {
		if i > 0 {
			text += " or "
		}
		text += fmt.Sprint(n)
	}
	return text
}
