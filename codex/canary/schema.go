package canary

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// fields has the fields of codex's messages in use, by the file of the schema that describes each message.
var fields = map[string]string{
	"v1/InitializeParams":                    "clientInfo capabilities",
	"v1/InitializeResponse":                  "userAgent",
	"v2/ModelListParams":                     "cursor includeHidden",
	"v2/ModelListResponse":                   "data nextCursor",
	"v2/ThreadStartParams":                   "ephemeral model baseInstructions experimentalRawEvents serviceTier config dynamicTools",
	"v2/ThreadStartResponse":                 "thread",
	"v2/ThreadInjectItemsParams":             "threadId items",
	"v2/ThreadUnsubscribeParams":             "threadId",
	"v2/TurnStartParams":                     "threadId input effort summary outputSchema",
	"v2/TurnStartResponse":                   "turn",
	"v2/TurnInterruptParams":                 "threadId turnId",
	"v2/AgentMessageDeltaNotification":       "threadId itemId delta",
	"v2/ItemCompletedNotification":           "threadId item",
	"v2/ThreadTokenUsageUpdatedNotification": "threadId tokenUsage",
	"v2/ErrorNotification":                   "threadId error willRetry",
	"v2/TurnCompletedNotification":           "threadId turn",
	"v2/GetAccountResponse":                  "account",
	"v2/GetAccountRateLimitsResponse":        "rateLimits rateLimitsByLimitId",
}

// methods has the methods in use, by the file of the schema that lists them.
var methods = map[string]string{
	"ClientRequest": "initialize model/list account/read account/rateLimits/read thread/start thread/inject_items " +
		"thread/unsubscribe thread/loaded/list turn/start turn/interrupt",
	"ClientNotification": "initialized",
	"ServerRequest":      "item/tool/call",
	"ServerNotification": "turn/started turn/completed item/agentMessage/delta item/reasoning/summaryTextDelta " +
		"item/completed thread/tokenUsage/updated error account/rateLimits/updated",
}

// CheckSchema compares the schema that a codex has written to dir (app-server generate-json-schema --experimental)
// with the messages in use.
func CheckSchema(dir string) error {
	var lacks []string
	for _, file := range slices.Sorted(maps.Keys(fields)) {
		var s struct {
			Properties map[string]json.RawMessage `json:"properties"`
		}
		if err := read(dir, file, &s); err != nil {
			return err
		}
		for name := range strings.FieldsSeq(fields[file]) {
			if _, has := s.Properties[name]; !has {
				lacks = append(lacks, filepath.Base(file)+"."+name)
			}
		}
	}
	for _, file := range slices.Sorted(maps.Keys(methods)) {
		var s struct {
			OneOf []struct {
				Properties struct {
					Method struct {
						Enum []string `json:"enum"`
					} `json:"method"`
				} `json:"properties"`
			} `json:"oneOf"`
		}
		if err := read(dir, file, &s); err != nil {
			return err
		}
		listed := map[string]bool{}
		for _, one := range s.OneOf {
			for _, method := range one.Properties.Method.Enum {
				listed[method] = true
			}
		}
		for method := range strings.FieldsSeq(methods[file]) {
			if !listed[method] {
				lacks = append(lacks, method)
			}
		}
	}
	if len(lacks) > 0 {
		return fmt.Errorf("its protocol lacks %s", strings.Join(lacks, ", "))
	}
	return nil
}

func read(dir, file string, v any) error {
	text, err := os.ReadFile(filepath.Join(dir, file+".json"))
	if err != nil {
		return fmt.Errorf("its protocol lacks %s: %w", file, err)
	}
	if err := json.Unmarshal(text, v); err != nil {
		return fmt.Errorf("its schema %s does not parse: %w", file, err)
	}
	return nil
}
