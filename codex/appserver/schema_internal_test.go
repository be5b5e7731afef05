package appserver

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/rpc"
)

// typed holds every message type of this package by the schema file that describes it.
var typed = map[string]any{
	"v1/InitializeParams":                      initializeParams{},
	"v1/InitializeResponse":                    InitializeResponse{},
	"v2/GetAccountParams":                      accountReadParams{},
	"v2/GetAccountResponse":                    Account{},
	"v2/NullableGetAccountRateLimitsParams":    rateLimitsReadParams{},
	"v2/GetAccountRateLimitsResponse":          AccountLimits{},
	"v2/AccountRateLimitsUpdatedNotification":  rateLimitsPayload{},
	"v2/ModelListParams":                       modelListParams{},
	"v2/ModelListResponse":                     modelListResponse{},
	"v2/CommandExecParams":                     commandExecParams{},
	"v2/CommandExecResponse":                   CommandResult{},
	"v2/ThreadStartParams":                     threadStartParams{},
	"v2/ThreadStartResponse":                   threadStartResponse{},
	"v2/ThreadInjectItemsParams":               injectItemsParams{},
	"v2/ThreadUnsubscribeParams":               unsubscribeParams{},
	"v2/TurnStartParams":                       turnStartParams{},
	"v2/TurnStartResponse":                     turnStartResponse{},
	"v2/TurnInterruptParams":                   turnInterruptParams{},
	"v2/AgentMessageDeltaNotification":         agentMessageDelta{},
	"v2/ReasoningSummaryTextDeltaNotification": summaryTextDeltaParams{},
	"v2/ItemCompletedNotification":             completedItem{},
	"v2/ThreadTokenUsageUpdatedNotification":   tokenUsageParams{},
	"v2/ErrorNotification":                     errorParams{},
	"v2/TurnCompletedNotification":             turnCompletedParams{},
	"JSONRPCErrorError":                        RPCError{},
	"JSONRPCRequest":                           jsonRPCRequest{},
	"CommandExecutionRequestApprovalResponse":  decision{},
	"FileChangeRequestApprovalResponse":        decision{},
	"PermissionsRequestApprovalResponse":       permissionsAnswer{},
	"McpServerElicitationRequestResponse":      elicitationAnswer{},
	"DynamicToolCallResponse":                  toolAnswer{},
}

// agentMessageDelta has the members that deltaOf reads.
type agentMessageDelta struct {
	ItemID string `json:"itemId"`
	Delta  string `json:"delta"`
}

// completedItem has the members that messageOf and itemCompletedParams read.
type completedItem struct {
	Item struct {
		Type    string   `json:"type"`
		ID      string   `json:"id"`
		Text    string   `json:"text"`
		Summary []string `json:"summary"`
	} `json:"item"`
}

// jsonRPCRequest has the members that package rpc sends.
type jsonRPCRequest struct {
	ID     int64      `json:"id"`
	Method string     `json:"method"`
	Params any        `json:"params"`
	Trace  *rpc.Trace `json:"trace"`
}

// methodsIn holds every method in use by the schema file that lists it.
// rawResponse/completed and rawResponseItem/completed are sent on demand
// (experimentalRawEvents) and listed nowhere.
var methodsIn = map[string][]string{
	"ClientRequest": {
		"initialize", "model/list", "thread/start", "thread/inject_items", "thread/unsubscribe", "turn/start",
		"turn/interrupt",
		"account/read", "account/rateLimits/read", "command/exec",
	},
	"ClientNotification": {"initialized"},
	"ServerRequest": {
		"item/commandExecution/requestApproval", "item/fileChange/requestApproval", "item/permissions/requestApproval",
		"mcpServer/elicitation/request", "item/tool/call",
	},
	"ServerNotification": append([]string{
		"turn/started", "turn/completed", "item/agentMessage/delta", "item/reasoning/summaryTextDelta",
		"item/completed",
		"thread/tokenUsage/updated", "error", "account/rateLimits/updated",
	}, unused...),
}

func TestSchema(t *testing.T) {
	dir := generateSchema(t)
	for file, value := range typed {
		s := schema{root: load(t, dir, file)}
		for _, problem := range s.check(reflect.TypeOf(value), s.root, file) {
			t.Error(problem)
		}
	}
	for file, methods := range methodsIn {
		b, err := os.ReadFile(filepath.Join(dir, file+".json"))
		require.NoError(t, err)
		listed := map[string]bool{}
		var root struct {
			OneOf []struct {
				Properties struct{ Method struct{ Enum []string } }
			}
		}
		require.NoError(t, json.Unmarshal(b, &root))
		for _, one := range root.OneOf {
			for _, m := range one.Properties.Method.Enum {
				listed[m] = true
			}
		}
		for _, m := range methods {
			assert.True(t, listed[m], "%s does not list %s", file, m)
		}
	}
}

// The check finds wrong types.
func TestSchemaFindsMistakes(t *testing.T) {
	s := schema{root: load(t, generateSchema(t), "v2/TurnCompletedNotification")}
	assert.NotEmpty(t, s.check(reflect.TypeFor[struct {
		Turn struct {
			ID int `json:"id"`
		} `json:"turn"`
	}](), s.root, ""))
	assert.NotEmpty(t, s.check(reflect.TypeFor[struct {
		Turn struct {
			Identity string `json:"identity"`
		} `json:"turn"`
	}](), s.root, ""))
}

func generateSchema(t *testing.T) string {
	t.Helper()
	codex := os.Getenv("CODEX_PROXY_TEST_CODEX")
	if codex == "" {
		t.Skip("CODEX_PROXY_TEST_CODEX does not name a codex binary")
	}
	dir := t.TempDir()
	out, err := exec.Command(codex, "app-server", "generate-json-schema", "--experimental", "--out",
		dir).CombinedOutput()
	require.NoError(t, err, string(out))
	return dir
}

type node = map[string]any

func load(t *testing.T, dir, file string) (n node) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, file+".json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, &n))
	return n
}

// schema is one file of JSON schema.
type schema struct{ root node }

// alternatives flattens $ref, allOf, anyOf and oneOf.
func (s schema) alternatives(n node) (all []node) {
	if ref, ok := n["$ref"].(string); ok {
		definitions := s.root["definitions"].(node)
		return s.alternatives(definitions[strings.TrimPrefix(ref, "#/definitions/")].(node))
	}
	all = []node{n}
	for _, key := range []string{"allOf", "anyOf", "oneOf"} {
		list, _ := n[key].([]any)
		for _, sub := range list {
			if sub, ok := sub.(node); ok {
				all = append(all, s.alternatives(sub)...)
			}
		}
	}
	return all
}

// check lists the fields of a Go type that the schema does not have. In a union, one alternative with the field is
// enough.
func (s schema) check(t reflect.Type, n any, path string) []string {
	sub, ok := n.(node)
	if !ok || opaque(t) {
		return nil // the schema "true" takes anything
	}
	alternatives := s.alternatives(sub)
	switch t.Kind() {
	case reflect.Pointer:
		return s.check(t.Elem(), n, path)
	case reflect.Struct:
		return s.checkFields(t, alternatives, path)
	case reflect.Slice:
		for _, a := range alternatives {
			if items, ok := a["items"]; ok {
				return s.check(t.Elem(), items, path+"[]")
			}
		}
		return []string{path + " is no array"}
	}
	want := map[reflect.Kind]string{reflect.String: "string", reflect.Bool: "boolean", reflect.Int: "integer",
		reflect.Int64: "integer", reflect.Map: "object"}[t.Kind()]
	for _, a := range alternatives {
		if hasType(a, want) {
			return nil
		}
	}
	return []string{path + " is no " + want}
}

func (s schema) checkFields(t reflect.Type, alternatives []node, path string) (problems []string) {
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		at, found := path+"."+name, []string{path + "." + name + " does not exist"}
		for _, a := range alternatives {
			properties, _ := a["properties"].(node)
			if p, ok := properties[name]; ok {
				if found = s.check(t.Field(i).Type, p, at); len(found) == 0 {
					break
				}
			}
		}
		problems = append(problems, found...)
	}
	return problems
}

// opaque types take any JSON.
func opaque(t reflect.Type) bool {
	return t.Kind() == reflect.Interface || t == reflect.TypeFor[json.RawMessage]() || t == reflect.TypeFor[ErrorInfo]()
}

func hasType(n node, want string) bool {
	switch have := n["type"].(type) {
	case string:
		return have == want
	case []any:
		for _, h := range have {
			if h == want {
				return true
			}
		}
	}
	return false
}
