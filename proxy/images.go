package proxy

import (
	"context"
	"errors"
	"fmt"
	"sync"

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

// inline replaces what is named by URL with the image itself: codex takes
// nothing else. All images of a request are bounded as its body is.
func (s *Server) inline(ctx context.Context, x *exchange, images []openai.PlacedImage) error {
	if len(images) == 0 {
		return nil
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallelImages)
	room := imageRoom{server: s, held: &x.held}
	for _, p := range images {
		if !p.Image.Remote() {
			continue
		}
		if s.Images == nil {
			return openai.Invalid("image_fetch_disabled", p.At, p.At+": images are taken as data: URLs only; the operator has turned the fetching of others off")
		}
		g.Go(func() error {
			span := x.span.Child("image")
			err := s.fetch(ctx, x.key, p, &room)
			endImage(span, err)
			return err
		})
	}
	return g.Wait()
}

// decoding is how many bytes codex needs to decode the images for each of so many
// turns, which for all of them together must not be more than a request may need.
func decoding(images []openai.PlacedImage, turns int) (bytes int64, err error) {
	for _, p := range images {
		bytes += p.Image.Decoding()
		if all := bytes * int64(turns); all > openai.MaxDecoding {
			return 0, tooMuchToDecode(p.At, turns)
		}
	}
	return bytes, nil
}

func tooMuchToDecode(at string, turns int) error {
	times := ""
	if turns > 1 {
		times = fmt.Sprintf(", for each of %d choices", turns)
	}
	return openai.Invalid("image_too_large", at, fmt.Sprintf("%s: the images up to this one are more than a worker decodes"+
		" for one request%s; the limit is %d MiB, as docs/api.md counts them: send fewer, or scale them down"+
		" (1600 × 1600 pixels count for little)", at, times, openai.MaxDecoding>>20))
}

// imageRoom counts the images of one request.
type imageRoom struct {
	server *Server
	mu     sync.Mutex
	held   *held
	bytes  int64
}

// take waits for memory for one image.
func (i *imageRoom) take(ctx context.Context, p openai.PlacedImage, size int) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.bytes += int64(size); i.bytes > i.server.BodyLimit {
		return tooLarge(p.At, fmt.Sprintf("the images are larger than the limit of %d bytes (body_limit)", i.server.BodyLimit))
	}
	return i.held.take(ctx, perByte*int64(size))
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

// fetch keeps its place until there is memory for the image: what has no memory
// yet is as little as there are places.
func (s *Server) fetch(ctx context.Context, key string, p openai.PlacedImage, room *imageRoom) error {
	free, err := s.imagePlaces.take(ctx, key)
	if err != nil {
		return whyEnded(ctx, err)
	}
	defer free()
	url, err := s.Images.Inline(ctx, p.Image.URL)
	var known *openai.Error
	switch {
	case errors.As(err, &known):
		told := *known
		told.Param, told.Message = p.At, p.At+": "+told.Message
		return &told
	case err != nil:
		return whyEnded(ctx, err)
	}
	if err := p.Image.Inline(p.At, url); err != nil {
		return err
	}
	return room.take(ctx, p, len(url))
}
