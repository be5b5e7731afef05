package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/logs"
	"codex-proxy/runner/paths"
)

var (
	artifactsTool = mcp.Tool{
		Name: "artifacts", Title: "List artifacts", Annotations: readOnly,
		Description: "Lists the files that the commands of a session left: those that match artifacts of run.",
	}
	artifactTool = mcp.Tool{
		Name: "artifact", Title: "Read an artifact", Annotations: readOnly,
		Description: "Returns a part of the content of an artifact.",
	}
)

const listedArtifacts = 200

// artifact is one file.
type artifact struct {
	ID      int64  `json:"id"`
	Command int    `json:"command" jsonschema:"the number of the command that left it"`
	Path    string `json:"path" jsonschema:"in the workspace"`
	Kind    string `json:"kind" jsonschema:"file, junit or coverage"`
	Bytes   int64  `json:"bytes"`
}

type artifactList struct {
	Artifacts []artifact `json:"artifacts"`
	More      int        `json:"more,omitempty" jsonschema:"how many are left out"`
}

func (l artifactList) text() string {
	if len(l.Artifacts) == 0 {
		return "The session has no artifact."
	}
	var b strings.Builder
	for _, a := range l.Artifacts {
		fmt.Fprintf(&b, "%d. %s (%s, %d bytes, of command %d)\n", a.ID, a.Path, a.Kind, a.Bytes, a.Command)
	}
	if l.More > 0 {
		fmt.Fprintf(&b, "and %d more: codex-runner artifacts has them\n", l.More)
	}
	return b.String()
}

func (s *Server) artifacts(ctx context.Context, _ *call, in showInput) (artifactList, error) {
	list := artifactList{Artifacts: []artifact{}}
	if err := paths.CheckID(in.Session); err != nil {
		return list, err
	}
	all, err := s.Client.Artifacts(ctx, in.Session)
	list.More = max(0, len(all)-listedArtifacts)
	for _, a := range all[:len(all)-list.More] {
		list.Artifacts = append(list.Artifacts, artifact{a.ID, a.Command, printable(a.Path), a.Kind, a.Bytes})
	}
	return list, err
}

type artifactInput struct {
	Session string `json:"session" jsonschema:"the ID of the session"`
	ID      int64  `json:"id" jsonschema:"of the artifact, as artifacts lists it"`
	Since   int64  `json:"since_offset,omitempty" jsonschema:"begin at this byte"`
	Max     int    `json:"max_output,omitempty" jsonschema:"bytes of content in the answer; 16384 without it"`
}

// content is a part of an artifact.
type content struct {
	Path string `json:"path"`
	Size int64  `json:"bytes" jsonschema:"of the whole artifact"`
	From int64  `json:"content_from" jsonschema:"the offset of the first byte of content"`
	Next int64  `json:"next_offset" jsonschema:"the offset behind content"`
	Text string `json:"content" jsonschema:"bytes that are not UTF-8 are shown as �"`
}

func (c content) text() string {
	return fmt.Sprintf("%s, bytes %d to %d of %d:\n%s", c.Path, c.From, c.Next, c.Size, c.Text)
}

func (s *Server) artifact(ctx context.Context, _ *call, in artifactInput) (content, error) {
	b, err := bounded("", 0, in.Max)
	if err == nil {
		err = paths.CheckID(in.Session)
	}
	if err != nil {
		return content{}, err
	}
	all, err := s.Client.Artifacts(ctx, in.Session)
	if err != nil {
		return content{}, err
	}
	for _, a := range all {
		if a.ID == in.ID {
			return s.content(ctx, in, a, b.bytes)
		}
	}
	return content{}, fmt.Errorf("the session %s has no artifact %d: artifacts lists those that it has", in.Session,
		in.ID)
}

func (s *Server) content(ctx context.Context, in artifactInput, a wire.Artifact, keep int) (content, error) {
	if in.Since < 0 || in.Since > a.Bytes {
		return content{}, fmt.Errorf("since_offset=%d: want 0 to %d", in.Since, a.Bytes)
	}
	w := window{tail: tail{keep: keep, end: in.Since}, skip: in.Since}
	if err := s.Client.Artifact(ctx, in.Session, a, &w); err != nil && !errors.Is(err, errEnough) {
		return content{}, err
	}
	p := w.part(w.end >= a.Bytes)
	return content{printable(a.Path), a.Bytes, p.From, p.Next, p.Text}, nil
}

// window is a writer that keeps a part of the written bytes.
type window struct {
	tail
	skip int64 // bytes before the part
}

func (w *window) Write(p []byte) (int, error) {
	n := len(p)
	drop := int(min(w.skip, int64(n)))
	w.skip, p = w.skip-int64(drop), p[drop:]
	p = p[:min(len(p), w.keep-len(w.data))]
	w.add(logs.Chunk{Offset: w.end, Data: p})
	if len(w.data) == w.keep {
		return drop + len(p), errEnough
	}
	return n, nil
}
