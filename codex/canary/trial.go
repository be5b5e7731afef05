package canary

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"codex-proxy/codex/appserver"
	"codex-proxy/codex/history"
)

// Trial tries a running app-server that has the settings of a plain worker, with the endpoint as its provider.
type Trial struct {
	socket, version string
	endpoint        *Endpoint
	conn            *appserver.Conn
	ended           chan struct{} // closed at the end of the connection
	agent           string
}

// New returns the trial of the app-server at the socket. version is that of codex-proxy.
func New(socket, version string, endpoint *Endpoint) *Trial {
	return &Trial{socket: socket, version: version, endpoint: endpoint, ended: make(chan struct{})}
}

// Close ends the connection of the trial.
func (t *Trial) Close() {
	if t.conn != nil {
		t.conn.Close(nil)
		<-t.ended
	}
}

// Agent is the name and version that codex reports, once its handshake is over.
func (t *Trial) Agent() string { return t.agent }

// Steps are what a worker does with codex.
func (t *Trial) Steps() []Step {
	return []Step{
		{"the handshake", t.handshake},
		{"the list of models", t.models},
		{"a plain turn", t.plain},
		{"a turn with a tool", t.tool},
		{"a turn with an image", t.image},
		{"a continued turn", t.continued},
	}
}

func (t *Trial) handshake(ctx context.Context) error {
	conn, err := appserver.Dial(ctx, t.socket, appserver.Options{ClientName: "codex-proxy", ClientVersion: t.version})
	if err != nil {
		return err
	}
	t.conn = conn
	go func() { defer close(t.ended); _ = conn.Run(context.WithoutCancel(ctx)) }()
	hello, err := conn.Initialize(ctx)
	t.agent = hello.UserAgent
	return err
}

func (t *Trial) models(ctx context.Context) error {
	models, err := t.conn.Models(ctx)
	if err == nil && !slices.ContainsFunc(models, func(m appserver.Model) bool { return m.ID == Model }) {
		err = fmt.Errorf("it lists %d models, and not that of its catalogue", len(models))
	}
	return err
}

const (
	question, answer = "Is this the first question?", "Yes, and this is the first answer."
	another, rest    = "Is this the second question?", "Yes, and this is the second answer."
	toolName         = "canary_tool"
	arguments        = `{"city":"Paris"}`
	// pixel is a PNG of one pixel.
	pixel = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)

func (t *Trial) plain(ctx context.Context) error {
	turn, err := t.answered(ctx, t.start(history.TextMessage("user", question)), answer, question)
	if err != nil {
		return err
	}
	return turn.Close(ctx)
}

// continued has a second turn in the thread of the first one.
func (t *Trial) continued(ctx context.Context) error {
	turn, err := t.answered(ctx, t.start(history.TextMessage("user", question)), answer, question)
	if err != nil {
		return err
	}
	thread := turn.Keep()
	if thread == nil {
		return errors.New("its thread cannot go on after a turn")
	}
	second := func(ctx context.Context) (*appserver.Turn, error) {
		return thread.StartTurn(ctx, t.request(history.TextMessage("user", another)))
	}
	if turn, err = t.answered(ctx, second, rest, question, another); err != nil {
		return err
	}
	return turn.Close(ctx)
}

func (t *Trial) image(ctx context.Context) error {
	turn, err := t.answered(ctx, t.start(history.Message("user", history.Content{Type: "input_text", Text: question},
		history.Content{Type: "input_image", ImageURL: pixel})), answer, question)
	if err != nil {
		return err
	}
	for _, i := range t.endpoint.received()[0].Input {
		for _, part := range i.Content {
			if strings.HasPrefix(part.ImageURL, "data:image/") {
				return turn.Close(ctx)
			}
		}
	}
	return errors.New("the model did not get the image")
}

// tool has the model call a tool, and then gives it the output, as clients do: in another request.
func (t *Trial) tool(ctx context.Context) error {
	t.endpoint.expect(call(toolName, arguments))
	asked := history.TextMessage("user", question)
	o, err := t.run(ctx, t.start(asked))
	switch {
	case err != nil:
		return err
	case o.status != appserver.TurnCalledTools || len(o.calls) != 1:
		return fmt.Errorf("the model called a tool once; codex reported %d calls, and %q as the end of the turn",
			len(o.calls), o.status)
	case o.calls[0].Name != toolName || o.calls[0].Arguments != arguments:
		return fmt.Errorf("codex reported a call of %q with %q; the model called %q with %q", o.calls[0].Name,
			o.calls[0].Arguments, toolName, arguments)
	}
	if err := t.once(question); err != nil {
		return err
	}
	if err := o.turn.Close(ctx); err != nil {
		return err
	}
	turn, err := t.answered(ctx, t.start(asked, history.FunctionCall("call_1", toolName, arguments),
		history.FunctionCallOutput("call_1", "sunny")), answer, question)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(t.endpoint.received()[0].Input, func(i item) bool {
		return i.Type == "function_call_output" && strings.Contains(string(i.Output), "sunny")
	}) {
		return errors.New("the model did not get the output of the tool")
	}
	return turn.Close(ctx)
}

type starter func(context.Context) (*appserver.Turn, error)

// start starts a turn in a thread of its own.
func (t *Trial) start(items ...history.Item) starter {
	return func(ctx context.Context) (*appserver.Turn, error) { return t.conn.StartTurn(ctx, t.request(items...)) }
}

func (t *Trial) request(items ...history.Item) appserver.TurnRequest {
	instructions := ""
	return appserver.TurnRequest{
		Model: Model, BaseInstructions: &instructions, Items: items,
		Tools: []appserver.Tool{{Name: toolName, Description: "the weather of a city",
			InputSchema: []byte(`{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}`)}},
	}
}

// answered runs a turn that has to end with the text, after one request with these messages of the user.
func (t *Trial) answered(ctx context.Context, start starter, text string, asked ...string) (*appserver.Turn, error) {
	t.endpoint.expect(message(text))
	o, err := t.run(ctx, start)
	switch {
	case err != nil:
		return nil, err
	case o.status != appserver.TurnCompletedOK:
		return nil, fmt.Errorf("the turn ended as %q", o.status)
	case o.text != text:
		return nil, fmt.Errorf("the model answered %q, and codex reported %q", text, o.text)
	}
	return o.turn, t.once(asked...)
}

// once is an error unless the model got one request, with these messages of the user and our tool.
func (t *Trial) once(asked ...string) error {
	got := t.endpoint.received()
	if len(got) != 1 {
		return fmt.Errorf("codex asked the model %d times, and not once", len(got))
	}
	var users []string
	for _, i := range got[0].Input {
		if i.Role == "user" {
			users = append(users, i.text())
		}
	}
	if !slices.Equal(users, asked) {
		return fmt.Errorf("the user's messages were %q, and the model got %q", asked, users)
	}
	if !slices.Contains(got[0].Tools, tool{toolName}) { // an older codex adds some of its own
		return errors.New("the model did not get the tool of the request")
	}
	return nil
}

// outcome is the end of a turn.
type outcome struct {
	turn   *appserver.Turn
	text   string
	calls  []functionCall
	status appserver.TurnStatus
}

type functionCall struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// run reads a turn to its end.
func (t *Trial) run(ctx context.Context, start starter) (o outcome, err error) {
	if o.turn, err = start(ctx); err != nil {
		return o, err
	}
	for {
		event, err := o.turn.Next(ctx)
		if errors.Is(err, io.EOF) {
			return o, nil
		}
		if err != nil {
			return o, err
		}
		switch e := event.(type) {
		case appserver.TextDelta:
			o.text += e.Text
		case appserver.ResponseItem:
			if e.Type != "function_call" {
				continue
			}
			var called functionCall
			if err := e.Decode(&called); err != nil {
				return o, err
			}
			o.calls = append(o.calls, called)
		case appserver.Retrying:
			return o, fmt.Errorf("codex repeats its request: %w", e.Err)
		case appserver.TurnCompleted:
			if o.status = e.Status; e.Err != nil {
				return o, e.Err
			}
		}
	}
}
