package clienttool

// Call is the model's call of a tool, as the client knows it.
type Call struct {
	ID, Name  string
	Arguments string // as the model wrote them; possibly invalid JSON. Of a custom tool: its input
	Custom    bool
}

// Wire is the name and the arguments of the call for codex and the model.
func (c Call) Wire() (name, arguments string) {
	if c.Custom {
		return WireName("", c.Name), CustomArguments(c.Arguments)
	}
	return WireName("", c.Name), c.Arguments
}
