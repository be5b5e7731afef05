package environment

import "context"

// Has returns why the host has no such tool, or nil.
func (h Host) Has(tool string) error {
	_, err := h.find(tool)
	return err
}

// Missing returns, for each provider that needs tools of the host, why it cannot make environments here, or nil.
func (h Host) Missing(ctx context.Context) map[string]error {
	first := func(tools ...string) error {
		for _, tool := range tools {
			if err := h.Has(tool); err != nil {
				return err
			}
		}
		return nil
	}
	_, pip, err := h.python(ctx)
	if err == nil && pip.Version == "" {
		err = &MissingToolError{"pip", packages["pip"]}
	}
	return map[string]error{
		"venv": err, "uv": first("uv", "python3"), "conda": first("micromamba"), "node": first("node", "npm"),
	}
}
