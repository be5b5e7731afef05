package codexhome

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// unboundedContext is more tokens than any request has: the model endpoint decides whether a history is too long.
const unboundedContext = 100_000_000

// plainModel turns a model of codex's catalogue into a pure language model: no shell, patch or code tool, no
// agents, no prompt of codex's own, no offers of other models.
var plainModel = map[string]any{
	"tool_mode": "direct", "use_responses_lite": false, "multi_agent_version": nil, "apply_patch_tool_type": nil,
	"shell_type": "disabled", "experimental_supported_tools": []any{}, "supports_search_tool": false,
	"upgrade": nil, "availability_nux": nil, "base_instructions": "", "model_messages": nil,
	"max_context_window": unboundedContext, "auto_compact_token_limit": nil,
	// Codex drops the verbosity for other models; with this the model endpoint decides.
	"support_verbosity": true,
}

// foreignModel removes the features that a model unknown to codex may lack. Its service tiers and its verbosity are up
// to the model endpoint: codex sends them if a client requests them.
var foreignModel = map[string]any{
	"description": "", "supported_reasoning_levels": []any{}, "default_reasoning_level": nil,
	"supports_reasoning_summaries": false, "additional_speed_tiers": []any{},
	"service_tiers":     []any{map[string]any{"id": "priority", "name": "Priority", "description": ""}},
	"support_verbosity": true, "default_verbosity": nil, "visibility": "list", "upgrade": nil, "availability_nux": nil,
	"supports_image_detail_original": false,
}

// hasCatalogue reports whether the worker's models differ from those that codex lists by itself.
func (w *Worker) hasCatalogue() bool { return w.Mode == Plain || w.Provider != nil }

// catalogue makes the worker's model catalogue from codex's own (`codex debug models`). A provider's catalogue has
// the models of the worker file alone; for a model outside the catalogue codex would add a 20 KB prompt and tools.
func (w *Worker) catalogue(bundled []byte) ([]byte, error) {
	var doc struct {
		Models []map[string]any `json:"models"`
	}
	if err := json.Unmarshal(bundled, &doc); err != nil {
		return nil, fmt.Errorf("cannot read the models that codex lists: %w", err)
	}
	if len(doc.Models) == 0 {
		return nil, errors.New("cannot read the models that codex lists: `codex debug models` printed none")
	}
	template := doc.Models[len(doc.Models)-1]
	var named []map[string]any
	for _, name := range w.models() {
		named = append(named, modelNamed(doc.Models, template, name))
	}
	if w.Provider == nil {
		listed := func(m map[string]any) bool { return lists(doc.Models, m["slug"]) }
		named = append(doc.Models, slices.DeleteFunc(named, listed)...)
	}
	if w.Mode == Plain {
		for _, m := range named {
			overlay(m, plainModel)
		}
	}
	return json.Marshal(map[string]any{"models": named})
}

// models are the names in the worker file, each once.
func (w *Worker) models() []string {
	var names []string
	if w.Model != "" {
		names = append(names, w.Model)
	}
	if w.Provider != nil {
		for _, name := range w.Provider.Models {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

func lists(models []map[string]any, slug any) bool {
	return slices.ContainsFunc(models, func(m map[string]any) bool { return m["slug"] == slug })
}

// modelNamed is codex's entry for name, or one made from the template, which has the fields that this codex
// requires.
func modelNamed(models []map[string]any, template map[string]any, name string) map[string]any {
	if i := slices.IndexFunc(models, func(m map[string]any) bool { return m["slug"] == name }); i >= 0 {
		return models[i]
	}
	m := map[string]any{}
	overlay(m, template)
	overlay(m, foreignModel)
	m["slug"], m["display_name"] = name, name
	return m
}

func overlay(m, over map[string]any) {
	for key, value := range over {
		m[key] = value
	}
}
