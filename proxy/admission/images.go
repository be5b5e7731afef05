package admission

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"codex-proxy/internal/cause"
	"codex-proxy/proxy"
	"codex-proxy/proxy/limits"
	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/openai/media"
	"codex-proxy/proxy/traces"
)

// parallelImages is how many images of one request, and of one API key, are
// fetched at a time. The fetcher has eight places: two keys leave some to other keys.
const parallelImages = 3

// mostFetched is how many images of one request are fetched, the newest ones: a request would else have any host get as
// many requests as fit into a body.
const mostFetched = 50

// Images fetches images for requests that name them by URL.
type Images interface {
	// Inline returns the image at an http(s) URL as a data URL. An *openai.Error
	// goes to the client.
	Inline(ctx context.Context, url string) (dataURL string, err error)
}

// Inline replaces the URLs of images with the images themselves, as codex fetches none.
// BodyLimit bounds all images of a request together. The error is an *openai.Error, or the
// cause of ctx.
func (in *Controller) Inline(ctx context.Context, x *proxy.Exchange, images []media.PlacedImage) error {
	if len(images) == 0 {
		return nil
	}
	if err := boundFetched(images); err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallelImages)
	room := imageRoom{limit: in.BodyLimit, held: &x.Grant.Body}
	for _, p := range images {
		if !p.Image.Remote() || p.Image.Omitted() {
			continue
		}
		if in.Images == nil && !p.New {
			p.Image.Omit()
			continue
		}
		if in.Images == nil {
			return openai.Invalid("image_fetch_disabled", p.At,
				p.At+": images are taken as data: URLs only; the operator has turned the fetching of others off")
		}
		g.Go(func() error {
			span := x.Span.Child("image")
			err := in.fetch(ctx, x.Key.Name, p, &room)
			endImage(span, err)
			if refused(err) && !p.New { // an old address may lead nowhere, and the conversation goes on
				p.Image.Omit()
				return nil
			}
			return err
		})
	}
	return g.Wait()
}

// refused reports whether an image cannot be had, however often it is asked for.
func refused(err error) bool {
	var known *openai.Error
	return errors.As(err, &known) && (known.Status == http.StatusBadRequest ||
		known.Status == http.StatusRequestEntityTooLarge)
}

// boundFetched leaves out the oldest images that are to be fetched, beyond the bound.
func boundFetched(images []media.PlacedImage) error {
	remote := 0
	for _, p := range slices.Backward(images) {
		if !p.Image.Remote() {
			continue
		}
		if remote++; remote <= mostFetched {
			continue
		}
		if p.New {
			return openai.Invalid("image_too_large", p.At,
				fmt.Sprintf("%s: at most %d images of one request are fetched; send others as data: URLs", p.At,
					mostFetched))
		}
		p.Image.Omit()
	}
	return nil
}

// Decoding is how many bytes codex needs to decode the images for each of so many turns, after it has left out the
// oldest images, beyond the bound of a request. The error is an *openai.Error about a new image.
func Decoding(images []media.PlacedImage, turns int) (bytes int64, err error) {
	kept, full := 0, false
	for _, p := range slices.Backward(images) {
		if p.Image.Omitted() {
			continue
		}
		refusal := p.Image.TooLarge()
		all := (bytes + p.Image.Decoding()) * int64(turns)
		full = full || refusal == nil && (all > media.MaxDecoding || kept == media.MaxImages)
		switch {
		case !full && refusal == nil:
			bytes += p.Image.Decoding()
			kept++
		case p.New && refusal == nil:
			return 0, firstBeyond(images, turns)
		case p.New:
			return 0, refusal
		default:
			p.Image.Omit()
		}
	}
	return bytes, nil
}

// firstBeyond is the error of the first new image that, with the images before it, is more than a worker decodes.
func firstBeyond(images []media.PlacedImage, turns int) *openai.Error {
	bytes, last := int64(0), ""
	for _, p := range images {
		if !p.New {
			continue
		}
		bytes, last = bytes+p.Image.Decoding(), p.At
		if bytes*int64(turns) > media.MaxDecoding {
			break
		}
	}
	return tooMuchToDecode(last, turns)
}

func tooMuchToDecode(at string, turns int) *openai.Error {
	times := ""
	if turns > 1 {
		times = fmt.Sprintf(", for each of %d choices", turns)
	}
	return openai.Invalid("image_too_large", at,
		fmt.Sprintf("%s: the images of this message are more than a worker decodes"+
			" for one request%s; the limits are %d MiB, as docs/api.md counts them, and %d images: send fewer, or scale "+
			"them down (1600 × 1600 pixels count for little)", at, times, media.MaxDecoding>>20, media.MaxImages))
}

// imageRoom is the memory of the images of one request.
type imageRoom struct {
	limit int64
	mu    sync.Mutex
	held  *limits.Held
	bytes int64
}

// acquire waits for memory for one image.
func (i *imageRoom) acquire(ctx context.Context, p media.PlacedImage, size int) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.bytes += int64(size); i.bytes > i.limit {
		return openai.TooLarge(p.At,
			fmt.Sprintf("the images are larger than the limit of %d bytes (body_limit)", i.limit))
	}
	return i.held.Acquire(ctx, limits.PerByte*int64(size))
}

// imagePlaces are the places of each API key. They are few bytes, and stay.
type imagePlaces struct{ of sync.Map } // name → chan struct{}

// acquire waits for a place of the key. Requests without a key need none: there are no
// other keys to be fair to.
func (p *imagePlaces) acquire(ctx context.Context, key string) (release func(), err error) {
	if key == "" {
		return func() {}, nil
	}
	shared, _ := p.of.LoadOrStore(key, make(chan struct{}, parallelImages))
	places := shared.(chan struct{})
	select {
	case places <- struct{}{}:
		return func() { <-places }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// fetch keeps its place until there is memory for the image: the places bound the
// images without memory.
func (in *Controller) fetch(ctx context.Context, key string, p media.PlacedImage, room *imageRoom) error {
	release, err := in.places.acquire(ctx, key)
	if err != nil {
		return err
	}
	defer release()
	url, err := in.Images.Inline(ctx, p.Image.URL)
	var known *openai.Error
	switch {
	case errors.As(err, &known):
		placed := *known
		placed.Param, placed.Message = p.At, p.At+": "+placed.Message
		return &placed
	case err != nil:
		return cause.Of(ctx, err)
	}
	if err := p.Image.Inline(p.At, url); err != nil {
		return err
	}
	return room.acquire(ctx, p, len(url))
}

// endImage ends the span of a fetched image. Its URL is the client's business.
func endImage(span *traces.Span, err error) {
	var known *openai.Error
	if errors.As(err, &known) {
		span.Fail(known.Code)
	}
	span.End()
}
