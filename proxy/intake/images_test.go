package intake

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestImagePlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p imagePlaces
		frees := make([]func(), parallelImages)
		for i := range frees {
			var err error
			frees[i], err = p.acquire(t.Context(), "ann")
			require.NoError(t, err)
		}
		within, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := p.acquire(within, "ann")
		require.ErrorIs(t, err, context.DeadlineExceeded, "a wait ends with its request")
		time.AfterFunc(time.Second, frees[0])
		_, err = p.acquire(t.Context(), "ann")
		require.NoError(t, err, "one is free")
	})
}
