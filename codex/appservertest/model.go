package appservertest

// Model is an entry of model/list.
type Model struct {
	ID     string
	Hidden bool
	// Efforts are the reasoning efforts; nil: low, medium and high.
	Efforts []string
}

func (s *Server) models() []Model {
	if len(s.Models) == 0 {
		return []Model{{ID: "demo"}}
	}
	return s.Models
}

func (m Model) shape() map[string]any {
	var efforts []any
	names := m.Efforts
	if names == nil {
		names = []string{"low", "medium", "high"}
	}
	for _, name := range names {
		efforts = append(efforts, map[string]any{"reasoningEffort": name, "description": name + " effort"})
	}
	return map[string]any{
		"id": m.ID, "model": m.ID, "displayName": m.ID, "description": "Answers without a model, to try things out.",
		"hidden": m.Hidden, "isDefault": false,
		"upgrade": nil, "upgradeInfo": nil, "availabilityNux": nil, "modelSpecialty": nil,
		"supportedReasoningEfforts": efforts, "defaultReasoningEffort": "low",
		"inputModalities": []any{"text", "image"}, "supportsPersonality": false, "multiAgentVersion": nil,
		"additionalSpeedTiers": []any{}, "serviceTiers": []any{}, "defaultServiceTier": nil,
		"availableAccessPrograms": nil,
	}
}
