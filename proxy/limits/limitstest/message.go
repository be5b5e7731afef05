package limitstest

import "strings"

func (g *Genome) messageBlock() string {
	image := `{"type":"image","source":{"type":"base64","media_type":"image/png","data":"` +
		strings.TrimPrefix(OnePixel, "data:image/png;base64,") + `"}}`
	switch g.pick(8) {
	case 0:
		return `{}`
	case 5:
		return `{"type":"search_result","title":"t","source":"s","content":[{"type":"document","source":{"type":"content",` +
			`"content":[{"type":"text","text":` + g.words() + `}]}}]}`
	case 1:
		return image
	case 2:
		return `{"type":"document","title":"t","source":{"type":"text","media_type":"text/plain","data":` + g.words() + `}}`
	case 3:
		return `{"type":"thinking","thinking":` + g.words() + `,"signature":"worker-0123456789ab:x"}`
	case 4:
		return `{"type":"text","text":""}`
	default:
		return `{"type":"text","text":` + g.words() + `}`
	}
}

func (g *Genome) message() string {
	switch g.pick(6) {
	case 0:
		return `{}`
	case 1:
		return `{"role":` + g.of(`"user"`, `"assistant"`, `"system"`) + `,"content":` + g.words() + `}`
	case 2:
		return `{"role":"assistant","content":[` + g.numbered(`{"type":"tool_use","id":"%d","name":"b","input":{"a":`+
			strings.ReplaceAll(g.words(), "%", "")+`}}`) + `]},{"role":"user","content":[` +
			g.numbered(`{"type":"tool_result","tool_use_id":"%d","content":`+strings.ReplaceAll(g.words(), "%", "")+`}`) +
			`]}`
	case 3:
		return `{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[` +
			g.times(g.messageBlock) + `]}]}`
	default:
		return `{"role":` + g.of(`"user"`, `"assistant"`) + `,"content":[` + g.times(g.messageBlock) + `]}`
	}
}

// Message is the body of a request for a message.
func (g *Genome) Message() string {
	body := `{"model":"demo","max_tokens":1,"messages":[` + g.times(g.message) + `,{"role":"user","content":"x"}]`
	switch g.pick(6) {
	case 0:
		body += `,"tools":[` + g.numbered(strings.ReplaceAll(`{`+g.function()+`}`, `"parameters"`, `"input_schema"`)) + `]`
	case 1:
		body += `,"system":[` + g.times(func() string { return `{"type":"text","text":` + g.words() + `}` }) + `]`
	case 2:
		body += `,"output_config":{"format":{"type":"json_schema","schema":` + g.schema() + `}}`
	case 3:
		body += `,"stop_sequences":[` + g.times(g.words) + `],"metadata":` + g.nest()
	case 4:
		body += `,` + g.numbered(`"unknown%d":{}`)
	}
	return body + `}`
}
