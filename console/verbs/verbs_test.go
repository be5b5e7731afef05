package verbs

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
)

// However many pages ask, one examination runs; a page that has gone has none.
func TestOneAtATime(t *testing.T) {
	all := 0
	begun, end := make(chan struct{}), make(chan struct{})
	run := OneAtATime(func(context.Context) (any, error) {
		all++
		close(begun)
		<-end
		return all, nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	var pages sync.WaitGroup
	for range 3 {
		pages.Go(func() { _, _ = run(ctx, nil, nil) })
	}
	<-begun
	cancel()
	close(end)
	pages.Wait()
	assert.Equal(t, 1, all)
}
