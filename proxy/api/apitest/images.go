package apitest

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"

	"codex-proxy/proxy/openai"
)

// OnePixel is a PNG.
const OnePixel = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="

// Gallery fetches by the last word of a URL.
type Gallery struct {
	Fetched atomic.Int64
	Begun   chan struct{} // if set: told of each that is slow
}

// Inline is an image by what its URL ends in.
func (g *Gallery) Inline(ctx context.Context, url string) (string, error) {
	g.Fetched.Add(1)
	switch {
	case strings.HasSuffix(url, "png"):
		return OnePixel, nil
	case strings.HasSuffix(url, "huge"):
		return Huge, nil
	case strings.HasSuffix(url, "html"):
		return "data:image/png;base64,PGh0bWw+", nil
	case strings.HasSuffix(url, "private"):
		return "", openai.Invalid("image_address_forbidden", "", "not there")
	case strings.HasSuffix(url, "slow"):
		if g.Begun != nil {
			g.Begun <- struct{}{}
		}
		<-ctx.Done()
		return "", ctx.Err()
	}
	return "", errors.New("the fetcher is broken")
}
