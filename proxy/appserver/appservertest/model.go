package appservertest

// Model is an entry of model/list.
type Model struct {
	ID          string
	Description string
	Hidden      bool
	// Efforts are the reasoning efforts; none means "low", "medium" and "high".
	// The first is the default.
	Efforts []string
}

func (s *Server) models() []Model {
	if len(s.Models) == 0 {
		return []Model{{ID: "demo", Description: "Answers without a model, to try things out."}}
	}
	return s.Models
}

func (m Model) shape() map[string]any {
	names := m.Efforts
	if len(names) == 0 {
		names = []string{"low", "medium", "high"}
	}
	efforts := make([]any, 0, len(names))
	for _, name := range names {
		efforts = append(efforts, map[string]any{"reasoningEffort": name, "description": name + " effort"})
	}
	return map[string]any{
		"id": m.ID, "model": m.ID, "displayName": m.ID, "description": m.Description, "hidden": m.Hidden, "isDefault": false,
		"upgrade": nil, "upgradeInfo": nil, "availabilityNux": nil, "modelSpecialty": nil,
		"supportedReasoningEfforts": efforts, "defaultReasoningEffort": names[0],
		"inputModalities": []any{"text", "image"}, "supportsPersonality": false, "multiAgentVersion": nil,
		"additionalSpeedTiers": []any{}, "serviceTiers": []any{}, "defaultServiceTier": nil, "availableAccessPrograms": nil,
	}
}
