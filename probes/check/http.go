package check

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
)

// bodyLimit bounds the bytes of an answer that a check reads and drops, so that a
// server which sends without end does not delay it.
const bodyLimit = 64 << 10

// HTTP passes when GET url is answered with a status from 200 to 399. Redirects
// are answers and are not followed.
func HTTP(url string) Func {
	return httpCheck(url, "http "+url, nil)
}

// HTTPUnix is HTTP over the unix socket at path. It requests target, such as
// "/healthz".
func HTTPUnix(path, target string) Func {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		var dialer net.Dialer
		return dialer.DialContext(ctx, "unix", path)
	}
	return httpCheck("http://localhost"+target, "http "+path+target, dial)
}

// httpCheck makes a new connection for each call: one kept open does not prove
// that the server still accepts.
func httpCheck(url, detail string, dial func(context.Context, string, string) (net.Conn, error)) Func {
	client := &http.Client{
		Transport:     &http.Transport{DialContext: dial, DisableKeepAlives: true},
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
		if _, err := io.Copy(io.Discard, io.LimitReader(response.Body, bodyLimit)); err != nil {
			return "", err
		}
		if response.StatusCode < 200 || response.StatusCode > 399 {
			return "", fmt.Errorf("GET %s: %s", url, response.Status)
		}
		return detail, nil
	}
}
