package wire_test

import (
	"testing"

	"codex-proxy/codex/wire"
	"codex-proxy/test/codexschema"
)

func TestSchema(t *testing.T) {
	codexschema.Compare(t, map[string]any{
		"v1/InitializeParams":        wire.Initialize{},
		"v2/ThreadStartParams":       wire.ThreadStart{},
		"v2/ThreadStartResponse":     wire.ThreadStarted{},
		"v2/ThreadInjectItemsParams": wire.InjectItems{},
		"v2/ThreadUnsubscribeParams": wire.ThreadUnsubscribe{},
		"v2/TurnStartParams":         wire.TurnStart{},
		"v2/TurnStartResponse":       wire.TurnStarted{},
		"v2/TurnInterruptParams":     wire.TurnInterrupt{},
		"v2/EnvironmentAddParams":    wire.EnvironmentAdd{},
		"DynamicToolCallResponse":    wire.ToolAnswer{},
	}, nil)
}
