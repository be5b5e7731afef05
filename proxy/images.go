package proxy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"codex-proxy/proxy/openai"
)

// parallelImages is how many images of one request, and of one API key, are
// fetched at a time. The fetcher has eight places: two keys leave some to others.
const parallelImages = 3

// Images fetches images for requests that name them by URL.
type Images interface {
	// Inline returns the image at an http(s) URL as a data URL. An *openai.Error
	// is what the client is told.
	Inline(ctx context.Context, url string) (dataURL string, err error)
}

// picture is an image of a request, and where in the request it is.
type picture struct {
	at    string
	image *openai.Image
}

// inline replaces what is named by URL with the image itself: codex takes
// nothing else. All images of a request are bounded as its body is.
func (s *Server) inline(ctx context.Context, x *exchange, pictures []picture) error {
	if len(pictures) == 0 {
		return nil
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallelImages)
	var total atomic.Int64
	for _, p := range pictures {
		if !p.image.Remote() {
			continue
		}
		if s.Images == nil {
			return openai.Invalid("image_fetch_disabled", p.at, p.at+": images are taken as data: URLs only; the operator has turned the fetching of others off")
		}
		g.Go(func() error {
			span := x.span.Child("image")
			url, err := s.fetch(ctx, x.key, p)
			endImage(span, err)
			if err == nil && total.Add(int64(len(url))) > s.BodyLimit {
				err = &openai.Error{
					Status: http.StatusRequestEntityTooLarge, Type: openai.TypeInvalidRequest, Code: "request_too_large", Param: p.at,
					Message: fmt.Sprintf("the images are larger than the limit of %d bytes (body_limit)", s.BodyLimit),
				}
			}
			p.image.URL = url
			return err
		})
	}
	return g.Wait()
}

// imagePlaces are those of each API key. They are few bytes, and stay.
type imagePlaces struct{ of sync.Map } // name → chan struct{}

// take waits for a place of the key; without keys there is nobody to be fair to.
func (p *imagePlaces) take(ctx context.Context, key string) (free func(), err error) {
	if key == "" {
		return func() {}, nil
	}
	taken, _ := p.of.LoadOrStore(key, make(chan struct{}, parallelImages))
	places := taken.(chan struct{})
	select {
	case places <- struct{}{}:
		return func() { <-places }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *Server) fetch(ctx context.Context, key string, p picture) (string, error) {
	free, err := s.imagePlaces.take(ctx, key)
	if err != nil {
		return "", whyEnded(ctx, err)
	}
	defer free()
	url, err := s.Images.Inline(ctx, p.image.URL)
	var known *openai.Error
	switch {
	case errors.As(err, &known):
		told := *known
		told.Param, told.Message = p.at, p.at+": "+told.Message
		return "", &told
	case err != nil:
		return "", whyEnded(ctx, err)
	}
	return url, openai.CheckImage(p.at, url)
}
