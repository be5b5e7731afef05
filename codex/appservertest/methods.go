package appservertest

import (
	"context"
	"encoding/json"
	"strconv"
)

// methods are the requests that the fake knows.
var methods = map[string]func(context.Context, *Peer, message){
	"initialize":          without((*Peer).initialize),
	"model/list":          without((*Peer).modelList),
	"account/read":        without((*Peer).accountRead),
	"thread/start":        without((*Peer).threadStart),
	"thread/inject_items": without((*Peer).injectItems),
	"thread/unsubscribe":  without((*Peer).unsubscribe),
	"environment/add":     without((*Peer).environmentAdd),
	"turn/start":          turnStart,
	"turn/interrupt":      without((*Peer).turnInterrupt),
}

// without adapts a method that needs no context, because it does not outlive its request.
func without(f func(*Peer, message)) func(context.Context, *Peer, message) {
	return func(_ context.Context, p *Peer, m message) { f(p, m) }
}

// decode reads the parameters, or refuses the request as codex does.
func (p *Peer) decode(m message, params any) bool {
	if err := json.Unmarshal(m.Params, params); err != nil {
		p.Refuse(m.ID, -32600, "Invalid request: "+err.Error())
		return false
	}
	return true
}

func (p *Peer) initialize(m message) {
	var params struct {
		ClientInfo   struct{ Name, Version string }
		Capabilities struct{ OptOutNotificationMethods []string }
	}
	if !p.decode(m, &params) {
		return
	}
	if p.isInitialized() {
		p.Refuse(m.ID, -32600, "Already initialized")
		return
	}
	p.mu.Lock()
	p.initialized, p.originator = true, params.ClientInfo.Name
	p.optOut = map[string]bool{}
	for _, method := range params.Capabilities.OptOutNotificationMethods {
		p.optOut[method] = true
	}
	p.mu.Unlock()
	release := "demo"
	if p.server.Older {
		release = "0.140.0"
	}
	p.Reply(m.ID, map[string]any{
		"userAgent":      params.ClientInfo.Name + "/" + release + " (" + params.ClientInfo.Version + ")",
		"codexHome":      "/nonexistent",
		"platformFamily": "unix",
		"platformOs":     "linux",
	})
	p.Notify("remoteControl/status/changed", map[string]any{
		"status": "disabled", "serverName": "demo", "installationId": newID(), "environmentId": nil,
	})
}

func (p *Peer) accountRead(m message) {
	p.Reply(m.ID, map[string]any{"account": nil, "userId": nil, "requiresOpenaiAuth": false, "workspaceRouting": nil})
}

func (p *Peer) modelList(m message) {
	var params struct {
		Cursor        *string
		Limit         *int
		IncludeHidden *bool
	}
	if !p.decode(m, &params) {
		return
	}
	var data []any
	for _, model := range p.server.models() {
		if !model.Hidden || params.IncludeHidden != nil && *params.IncludeHidden {
			data = append(data, model.shape())
		}
	}
	from, to, next := 0, len(data), any(nil)
	if params.Cursor != nil {
		n, err := strconv.Atoi(*params.Cursor)
		if err != nil || n < 0 || n > len(data) {
			p.Refuse(m.ID, -32600, "invalid cursor: "+*params.Cursor)
			return
		}
		from = n
	}
	if params.Limit != nil && *params.Limit > 0 && from+*params.Limit < len(data) {
		to = from + *params.Limit
		next = strconv.Itoa(to)
	}
	p.Reply(m.ID, map[string]any{"data": append([]any{}, data[from:to]...), "nextCursor": next})
}

func (p *Peer) threadStart(m message) {
	th := &thread{id: newID()}
	if !p.decode(m, &th.request) {
		return
	}
	if problem := badTools(th.request.DynamicTools); problem != "" {
		p.Refuse(m.ID, -32600, problem)
		return
	}
	if unknown := p.place(th.request.Environments); unknown != "" {
		p.Refuse(m.ID, -32600, "unknown turn environment id `"+unknown+"`")
		return
	}
	if th.request.Model == "" {
		th.request.Model = p.server.models()[0].ID
	}
	p.mu.Lock()
	th.originator = p.originator
	p.threads[th.id] = th
	p.mu.Unlock()
	p.Reply(m.ID, th.startShape())
	p.Notify("thread/started", map[string]any{"thread": th.shape()})
}

func (p *Peer) environmentAdd(m message) {
	var params Environment
	if !p.decode(m, &params) {
		return
	}
	p.mu.Lock()
	if p.environments == nil {
		p.environments = map[string]Environment{}
	}
	p.environments[params.ID] = params
	p.mu.Unlock()
	p.Reply(m.ID, map[string]any{})
}

// place completes the environments of a thread, or returns the ID of one that is unknown.
func (p *Peer) place(environments []Environment) (unknown string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, e := range environments {
		known, is := p.environments[e.ID]
		if !is {
			return e.ID
		}
		known.Dir = e.Dir
		environments[i] = known
	}
	return ""
}

func (p *Peer) injectItems(m message) {
	var params struct {
		ThreadID string
		Items    []json.RawMessage
	}
	if !p.decode(m, &params) {
		return
	}
	th := p.thread(params.ThreadID)
	switch {
	case th == nil:
		p.Refuse(m.ID, -32600, "thread not found: "+params.ThreadID)
		return
	case len(params.Items) == 0:
		p.Refuse(m.ID, -32600, "items must not be empty")
		return
	}
	p.mu.Lock()
	th.request.Items = append(th.request.Items, params.Items...)
	p.mu.Unlock()
	p.Reply(m.ID, map[string]any{})
	for _, item := range params.Items {
		p.Notify("rawResponseItem/completed", map[string]any{
			"threadId": th.id, "turnId": "auto-compact-0", "item": echo(item),
		})
	}
}

func (p *Peer) unsubscribe(m message) {
	var params struct{ ThreadID string }
	if !p.decode(m, &params) {
		return
	}
	p.mu.Lock()
	th := p.threads[params.ThreadID]
	delete(p.threads, params.ThreadID)
	p.mu.Unlock()
	if th == nil {
		p.Reply(m.ID, map[string]any{"status": "notLoaded"})
		return
	}
	th.interrupt("")
	p.Reply(m.ID, map[string]any{"status": "unsubscribed"})
	p.Notify("thread/status/changed", map[string]any{"threadId": th.id, "status": map[string]any{"type": "notLoaded"}})
	p.Notify("thread/closed", map[string]any{"threadId": th.id})
}

func turnStart(ctx context.Context, p *Peer, m message) {
	var params struct {
		ThreadID        string
		Effort, Summary string
		OutputSchema    json.RawMessage
	}
	if !p.decode(m, &params) {
		return
	}
	th := p.thread(params.ThreadID)
	if th == nil {
		p.Refuse(m.ID, -32600, "thread not found: "+params.ThreadID)
		return
	}
	if !p.server.begin() {
		p.refuse(m.ID, -32600, "server is shutting down", map[string]any{"reason": "serverShuttingDown"})
		return
	}
	p.mu.Lock()
	request := th.request
	p.mu.Unlock()
	request.Effort, request.Summary, request.OutputSchema = params.Effort, params.Summary, params.OutputSchema
	ctx, cancel := context.WithCancel(ctx)
	t := newTurn(p, th, request, cancel)
	p.Notify("thread/settings/updated", th.settingsShape(request))
	p.Reply(m.ID, map[string]any{"turn": t.shape("inProgress", nil)})
	p.turns.Add(1)
	go func() {
		defer p.turns.Done()
		defer p.server.turns.Done()
		defer cancel()
		t.run(ctx, p.server.handler())
	}()
}

func (p *Peer) turnInterrupt(m message) {
	var params struct{ ThreadID, TurnID string }
	if !p.decode(m, &params) {
		return
	}
	th := p.thread(params.ThreadID)
	if th == nil {
		p.Refuse(m.ID, -32600, "thread not found: "+params.ThreadID)
		return
	}
	if !th.interrupt(params.TurnID) {
		p.Refuse(m.ID, -32600, "no active turn to interrupt")
		return
	}
	p.Reply(m.ID, map[string]any{})
}

func (p *Peer) thread(id string) *thread {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.threads[id]
}
