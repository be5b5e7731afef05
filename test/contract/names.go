package contract

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

// schemaDir has other schemas than those of this directory, which `make nightly` makes.
const schemaDir = "CODEX_PROXY_TEST_SCHEMAS"

// Names are the names that requests of an API may have, in its newest types: parameters by endpoint, members of some
// parameters, and types of items. file is openai.json or anthropic.json.
func Names(file string) (map[string][]string, error) {
	data, err := schemaFile(file)
	if err != nil {
		return nil, err
	}
	var doc struct {
		Definitions map[string]json.RawMessage
	}
	var named struct{ Properties map[string]words }
	if err := json.Unmarshal(data, &doc); err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", file, err)
	}
	if err := json.Unmarshal(doc.Definitions["Names"], &named); err != nil {
		return nil, fmt.Errorf("cannot read the names in %s: %w", file, err)
	}
	names := map[string][]string{}
	for name, list := range named.Properties {
		if names[name], err = list.resolve(doc.Definitions); err != nil {
			return nil, fmt.Errorf("cannot read the names in %s: %w", file, err)
		}
	}
	return names, nil
}

func schemaFile(file string) ([]byte, error) {
	if dir := os.Getenv(schemaDir); dir != "" {
		return os.ReadFile(filepath.Join(dir, file))
	}
	return map[string][]byte{location: openai, anthropicLocation: anthropic}[file], nil
}

// words is the schema of a text that is one of some words.
type words struct {
	Ref   string `json:"$ref"`
	Const string
	Enum  []*string // null is one of them where the text may be missing
}

func (w words) resolve(definitions map[string]json.RawMessage) (list []string, err error) {
	if w.Ref != "" {
		name, err := url.PathUnescape(strings.TrimPrefix(w.Ref, "#/definitions/"))
		if err != nil {
			return nil, err
		}
		var there words
		if err := json.Unmarshal(definitions[name], &there); err != nil {
			return nil, err
		}
		return there.resolve(definitions)
	}
	if w.Const != "" {
		return []string{w.Const}, nil
	}
	for _, word := range w.Enum {
		if word != nil {
			list = append(list, *word)
		}
	}
	return list, nil
}
