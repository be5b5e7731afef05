package apitest

import (
	"context"

	"codex-proxy/codex/appservertest"
)

// WeatherTools offers two functions.
const WeatherTools = `"tools":[{"type":"function","function":{"name":"weather","description":"what the sky does",` +
	`"parameters":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}}},{"type":"function","function":{"name":"time"}}],`

// CallingTools says something, and calls two tools at once.
func CallingTools(ctx context.Context, turn *appservertest.Turn) error {
	turn.Text("I will ask.")
	turn.Call(ctx, "weather", `{"city":"Paris"}`)
	turn.Call(ctx, "nosuch", `{}`)
	turn.Call(ctx, "weather", `{"city":"Rome"}`)
	turn.EndResponse(SomeUsage)
	return turn.Outputs(ctx)
}
