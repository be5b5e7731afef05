package hands

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
)

// mostFile bounds a file that a client reads, in bytes of its base64.
const mostFile = 768 << 10

// pathParams are the parameters of requests about a file.
type pathParams struct {
	Path string `json:"path"`
}

// file has the exec-server answer a request: its answers are the same as codex's.
func (g *Gate) file(method string) func(context.Context, Client, []byte) error {
	return func(ctx context.Context, of Client, params []byte) error {
		result, err := g.about(ctx, method, params)
		if err != nil {
			return err
		}
		return of.Answer(result)
	}
}

func (g *Gate) about(ctx context.Context, method string, params []byte) (json.RawMessage, error) {
	p, err := decode[pathParams](params)
	if err == nil && p.Path == "" {
		err = errors.New("its path is empty")
	}
	if err != nil {
		return nil, err
	}
	return g.Hands.ask(ctx, method, map[string]any{"path": fileURL(p.Path), "sandbox": nil})
}

// readFile is fs/readFile.
func (g *Gate) readFile(ctx context.Context, of Client, params []byte) error {
	result, err := g.about(ctx, "fs/readFile", params)
	if err == nil && len(result) > mostFile {
		err = fmt.Errorf("the file has more than %d KiB: read a part of it by command/exec", mostFile/4*3>>10)
	}
	if err != nil {
		return err
	}
	return of.Answer(result)
}
