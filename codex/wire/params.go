// Package wire has the messages of codex app-server that start and end threads and turns. They are encoded and scanned
// without reflection where every turn has them.
package wire

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	"codex-proxy/codex/history"
)

// Overhead is about how many bytes a request has besides its texts.
const Overhead = 128

// ThreadStart is the parameters of thread/start.
type ThreadStart struct {
	Ephemeral             bool    `json:"ephemeral"`
	Model                 string  `json:"model,omitempty"`
	BaseInstructions      *string `json:"baseInstructions,omitempty"`
	ExperimentalRawEvents bool    `json:"experimentalRawEvents"`
	ServiceTier           string  `json:"serviceTier,omitempty"`

	Config       Config `json:"config,omitempty"`
	DynamicTools []Tool `json:"dynamicTools,omitempty"`
	// Environments are where commands are executed; without any: in the environment of codex's configuration.
	Environments []ThreadEnvironment `json:"environments,omitempty"`
}

// ThreadEnvironment is an environment of a thread.
type ThreadEnvironment struct {
	ID  string `json:"environmentId"`
	Dir string `json:"cwd"`
}

// Config has keys of config.toml, for one thread.
type Config map[string]string

// ModelVerbosity is a key of Config.
const ModelVerbosity = "model_verbosity"

// AppendJSON implements rpc.Params.
func (p ThreadStart) AppendJSON(b []byte) []byte {
	b = strconv.AppendBool(append(b, `{"ephemeral":`...), p.Ephemeral)
	b = strconv.AppendBool(append(b, `,"experimentalRawEvents":`...), p.ExperimentalRawEvents)
	b = appendOptional(b, "model", p.Model)
	b = appendOptional(b, "serviceTier", p.ServiceTier)
	if p.BaseInstructions != nil {
		b = history.AppendString(append(b, `,"baseInstructions":`...), *p.BaseInstructions, "")
	}
	b = p.Config.append(b)
	for i, t := range p.DynamicTools {
		b = t.append(append(b, separator(i, `,"dynamicTools":[`)...))
	}
	if len(p.DynamicTools) > 0 {
		b = append(b, ']')
	}
	for i, e := range p.Environments {
		b = append(append(b, separator(i, `,"environments":[`)...), `{"environmentId":`...)
		b = history.AppendString(b, e.ID, `,"cwd":`)
		b = history.AppendString(b, e.Dir, "}")
	}
	if len(p.Environments) > 0 {
		b = append(b, ']')
	}
	return append(b, '}')
}

// append appends the member of ThreadStart, in the order of the keys: equal ones are equal texts.
func (c Config) append(b []byte) []byte {
	if len(c) == 0 {
		return b
	}
	for i, key := range slices.Sorted(maps.Keys(c)) {
		b = history.AppendString(append(b, separator(i, `,"config":{`)...), key, ":")
		b = history.AppendString(b, c[key], "")
	}
	return append(b, '}')
}

// Size implements rpc.Params.
func (p ThreadStart) Size() (n int) {
	n = 2 * Overhead
	for key, value := range p.Config {
		n += len(key) + len(value)
	}
	if p.BaseInstructions != nil {
		n += len(*p.BaseInstructions) + len(*p.BaseInstructions)/8
	}
	for _, t := range p.DynamicTools {
		n += Overhead + len(t.Description) + len(t.InputSchema)
	}
	return n
}

// InjectItems is the parameters of thread/inject_items.
type InjectItems struct {
	ThreadID string         `json:"threadId"`
	Items    []history.Item `json:"items"`
}

// AppendJSON implements rpc.Params. It copies the items, which are JSON and the whole history.
func (p InjectItems) AppendJSON(b []byte) []byte {
	b = history.AppendString(append(b, `{"threadId":`...), p.ThreadID, `,"items":[`)
	for i, item := range p.Items {
		b = append(append(b, separator(i, "")...), item...)
	}
	return append(b, "]}"...)
}

// appendOptional appends a member after others, if it has a value.
func appendOptional(b []byte, name, value string) []byte {
	if value == "" {
		return b
	}
	return history.AppendString(history.AppendString(append(b, ','), name, ":"), value, "")
}

// separator precedes the element at i of a list.
func separator(i int, first string) string {
	if i == 0 {
		return first
	}
	return ","
}

// Size implements rpc.Params.
func (p InjectItems) Size() (n int) {
	for _, item := range p.Items {
		n += len(item) + 1
	}
	return n + Overhead
}

// TurnStart is the parameters of turn/start.
type TurnStart struct {
	ThreadID     string          `json:"threadId"`
	Input        []struct{}      `json:"input"`
	Effort       string          `json:"effort,omitempty"`
	Summary      string          `json:"summary,omitempty"`
	OutputSchema json.RawMessage `json:"outputSchema,omitempty"`
}

// AppendJSON implements rpc.Params.
func (p TurnStart) AppendJSON(b []byte) []byte {
	b = history.AppendString(append(b, `{"threadId":`...), p.ThreadID, `,"input":[]`)
	b = appendOptional(b, "effort", p.Effort)
	b = appendOptional(b, "summary", p.Summary)
	if len(p.OutputSchema) > 0 {
		b = append(append(b, `,"outputSchema":`...), p.OutputSchema...)
	}
	return append(b, '}')
}

// Size implements rpc.Params.
func (p TurnStart) Size() int { return Overhead + len(p.OutputSchema) }

// EnvironmentAdd is the parameters of environment/add.
type EnvironmentAdd struct {
	ID    string `json:"environmentId"`
	URL   string `json:"execServerUrl"`
	Token string `json:"authBearerToken"`
}

// TurnInterrupt is the parameters of turn/interrupt.
type TurnInterrupt struct {
	ThreadID string `json:"threadId"`
	TurnID   string `json:"turnId"`
}

// ThreadUnsubscribe is the parameters of thread/unsubscribe.
type ThreadUnsubscribe struct {
	ThreadID string `json:"threadId"`
}

// AppendJSON implements rpc.Params.
func (p ThreadUnsubscribe) AppendJSON(b []byte) []byte {
	return history.AppendString(append(b, `{"threadId":`...), p.ThreadID, "}")
}

// Size implements rpc.Params.
func (p ThreadUnsubscribe) Size() int { return Overhead }
