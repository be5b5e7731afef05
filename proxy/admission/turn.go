package admission

import (
	"codex-proxy/codex/appserver"
	"codex-proxy/codex/history"
	"codex-proxy/proxy/openai/clienttool"
	"codex-proxy/proxy/openai/media"
)

// Tools are the tools of a request as codex offers them to the model.
func Tools(list []clienttool.Tool) []appserver.Tool {
	var tools []appserver.Tool
	for _, t := range list {
		tools = append(tools, appserver.Tool{
			Name: t.Wire.Name, Description: t.Wire.Description, InputSchema: t.Wire.Parameters,
		})
	}
	return tools
}

// AppendContents appends parts as contents of codex's history. kind is the type of texts in it: input_text, or
// output_text for texts of the model.
func AppendContents(list []history.Content, parts []media.Part, kind string) []history.Content {
	for _, p := range parts {
		switch {
		case p.Image != nil && (p.Image.Omitted() || p.Image.Remote()): // codex would fetch it
			list = append(list, history.Content{Type: kind, Text: media.OmittedImage})
		case p.Image != nil:
			list = append(list, history.Content{Type: "input_image", ImageURL: p.Image.URL, Detail: p.Image.Detail})
		default:
			list = append(list, history.Content{Type: kind, Text: p.Text})
		}
	}
	return list
}
