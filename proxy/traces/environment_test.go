package traces

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// sentResource returns the attributes of the resource with which a tracer of this environment sends.
func sentResource(t *testing.T) map[string]any {
	t.Helper()
	var attributes map[string]any
	synctest.Test(t, func(t *testing.T) {
		messages := make(chan []byte, 1)
		tr := tracer(1, nil, func(_ context.Context, b []byte) (int64, error) { messages <- b; return 0, nil })
		ctx, cancel := context.WithCancel(t.Context())
		ran := make(chan error, 1)
		go func() { ran <- tr.Run(ctx) }()
		tr.Begin(http.Header{}, time.Now()).End()
		attributes, _ = decode(t, <-messages)
		cancel()
		require.NoError(t, <-ran)
	})
	return attributes
}

func TestResourceOfTheEnvironment(t *testing.T) {
	own := map[string]any{"service.name": "codex-proxy", "service.version": version, "host.name": "here"}
	assert.Equal(t, own, sentResource(t))
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES",
		"deployment.environment.name=test%20bed,service.name=of-the-attributes,host.name=there")
	assert.Equal(t, map[string]any{
		"service.name": "of-the-attributes", "service.version": version, "host.name": "there",
		"deployment.environment.name": "test bed",
	}, sentResource(t))
	t.Setenv("OTEL_SERVICE_NAME", "of-the-variable")
	assert.Equal(t, "of-the-variable", sentResource(t)["service.name"])
}

// The sampler of the environment replaces the ratio.
func TestSamplerOfTheEnvironment(t *testing.T) {
	unsampled := strings.TrimSuffix(parent, "1") + "0"
	for _, c := range []struct {
		sampler, argument         string
		own, unsampled, isSampled bool // a request without a traceparent, and with one
	}{
		{"always_on", "", true, true, true},
		{"always_off", "", false, false, false},
		{"traceidratio", "0", false, false, false},
		{"traceidratio", "1", true, true, true},
		{"parentbased_always_on", "", true, false, true},
		{"parentbased_always_off", "", false, false, true},
		{"parentbased_traceidratio", "0", false, false, true},
	} {
		t.Run(c.sampler+c.argument, func(t *testing.T) {
			t.Setenv("OTEL_TRACES_SAMPLER", c.sampler)
			t.Setenv("OTEL_TRACES_SAMPLER_ARG", c.argument)
			tr := tracer(0.5, nil, nil)
			assert.Equal(t, c.own, tr.Begin(header(), time.Now()) != nil)
			assert.Equal(t, c.unsampled, tr.Begin(header("Traceparent", unsampled), time.Now()) != nil)
			assert.Equal(t, c.isSampled, tr.Begin(header("Traceparent", parent), time.Now()) != nil)
		})
	}
}

// No environment raises the bounds of a span, and the sender takes a batch of the largest spans.
func TestLargestBatch(t *testing.T) {
	for _, name := range []string{"ATTRIBUTE_COUNT", "ATTRIBUTE_VALUE_LENGTH", "EVENT_COUNT"} {
		t.Setenv("OTEL_SPAN_"+name+"_LIMIT", "100000")
	}
	synctest.Test(t, func(t *testing.T) {
		messages := make(chan []byte, 1)
		tr := tracer(1, nil, func(_ context.Context, b []byte) (int64, error) { messages <- b; return 0, nil })
		ctx, cancel := context.WithCancel(t.Context())
		ran := make(chan error, 1)
		go func() { ran <- tr.Run(ctx) }()
		state := "a=" + strings.Repeat("x", 250) + ",b=" + strings.Repeat("x", 250)
		for range maxBatch {
			s := tr.Begin(header("Traceparent", parent, "Tracestate", state), time.Now())
			s.Name("POST /v1/chat/completions")
			for i := range 2 * maxAttributes {
				s.Text(fmt.Sprintf("gen_ai.usage.input_tokens.%d", i), strings.Repeat("x", 2*maxText))
				s.Once(fmt.Sprint("event", i))
			}
			s.End()
		}
		message := <-messages
		cancel()
		require.NoError(t, <-ran)
		_, spans := decode(t, message)
		require.Len(t, spans, maxBatch)
		assert.Len(t, spans[0].Attributes, maxAttributes)
		assert.Len(t, spans[0].Events, maxEvents)
		assert.Less(t, len(message), MaxMessage)
		t.Logf("%d bytes of at most %d", len(message), MaxMessage)
	})
}
