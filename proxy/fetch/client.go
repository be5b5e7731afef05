package fetch

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"codex-proxy/internal/ondemand"
	"codex-proxy/proxy/openai"
)

const (
	// startTime is how long systemd may take to start or restart the fetcher.
	startTime  = 5 * time.Second
	retryAfter = 2 * time.Second
)

// errLost is a fetcher that ended during the request.
var errLost = errors.New("the image fetcher went away")

// Client calls the fetcher behind a socket. Its methods are safe for concurrent use.
type Client struct {
	limits  Limits
	http    http.Client
	fetches *prometheus.CounterVec
	logger  *slog.Logger
}

// NewClient returns a client of the fetcher at socket. It connects when it is used.
// The fetcher must have the same limits.
func NewClient(socket string, limits Limits, registry prometheus.Registerer, logger *slog.Logger) *Client {
	transport := &http.Transport{
		DisableKeepAlives: true, // the fetcher ends when it has no connection
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
	}
	return &Client{
		limits: limits, fetches: newFetches(registry), logger: logger, http: http.Client{Transport: transport},
	}
}

// Inline fetches the image at an http or https URL and returns it as a data URL.
// Its errors are *openai.Error, without a param, unless ctx ended.
func (c *Client) Inline(ctx context.Context, url string) (dataURL string, err error) {
	// A fetcher that ends or is reloaded finishes its fetches before the next one starts: this fetch may follow those.
	bounded, cancel := context.WithTimeout(ctx, 2*c.limits.Time+startTime)
	defer cancel()
	image, err := c.fetch(bounded, url)
	if errors.Is(err, errLost) { // it was killed: systemd starts another
		image, err = c.fetch(bounded, url)
	}
	if err != nil && ctx.Err() != nil {
		return "", ctx.Err()
	}
	if err != nil {
		e := c.clientError(err)
		c.fetches.WithLabelValues(e.Code).Inc()
		return "", e
	}
	c.fetches.WithLabelValues("ok").Inc()
	return "data:" + image.Type + ";base64," + base64.StdEncoding.EncodeToString(image.Data), nil
}

func (c *Client) fetch(ctx context.Context, url string) (Image, error) {
	if _, err := parseURL(url); err != nil {
		return Image{}, err
	}
	body, err := json.Marshal(request{URL: url})
	if err != nil {
		return Image{}, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://fetcher/fetch", bytes.NewReader(body))
	if err != nil {
		return Image{}, err
	}
	res, err := c.http.Do(r)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.ECONNREFUSED):
		return Image{}, err
	case err != nil:
		return Image{}, fmt.Errorf("%w: %v", errLost, err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return Image{}, refusal(res)
	}
	return c.read(res.Body)
}

// read trusts nothing: servers of strangers can attack the fetcher.
func (c *Client) read(body io.Reader) (Image, error) {
	data, err := io.ReadAll(io.LimitReader(body, c.limits.Bytes+1))
	switch kind := kindOf(data); {
	case err != nil:
		return Image{}, fmt.Errorf("%w: %v", errLost, err)
	case int64(len(data)) > c.limits.Bytes:
		return Image{}, tooLarge(c.limits)
	case kind == "":
		return Image{}, notAnImage()
	default:
		return Image{Type: kind, Data: data}, nil
	}
}

func refusal(res *http.Response) error {
	if reason := res.Header.Get(ondemand.ReasonHeader); reason != "" {
		return fmt.Errorf("the image fetcher refuses: %s", reason)
	}
	var e Error
	err := json.NewDecoder(io.LimitReader(res.Body, maxHeader)).Decode(&e)
	if err != nil || !slices.Contains(outcomes, e.Code) {
		return fmt.Errorf("%w: %s", errLost, res.Status)
	}
	return &e
}

// clientError is the error for a client of the API. Faults of the fetcher are logged
// for the operator; faults of the URL are returned.
func (c *Client) clientError(err error) *openai.Error {
	var known *Error
	switch {
	case !errors.As(err, &known):
		c.logger.Warn("images cannot be fetched", "error", err)
		const message = "images cannot be fetched just now; send the request again, or data URLs"
		return openai.Unavailable(codeUnavailable, message, retryAfter)
	case known.Code == codeOverloaded:
		const message = "too many images are being fetched; send the request again"
		return openai.Unavailable(codeOverloaded, message, retryAfter)
	}
	return openai.Invalid(known.Code, "", known.Message)
}
