package hands

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"codex-proxy/codex/jsonscan"
)

// shellParams are the parameters of thread/shellCommand.
type shellParams struct {
	Thread  string `json:"threadId"`
	Command string `json:"command"`
	Timeout int64  `json:"timeoutMs"`
}

// shellCommand is thread/shellCommand: it is answered at once. The client gets the items of a turn, as from codex, and
// the model the output.
func (g *Gate) shellCommand(ctx context.Context, of Client, params []byte) error {
	p, err := decode[shellParams](params)
	if err == nil && strings.TrimSpace(p.Command) == "" {
		err = errors.New("its command is empty")
	}
	if err != nil {
		return err
	}
	if err := of.Answer(struct{}{}); err != nil {
		return err
	}
	ctx, cancel := bounded(ctx, p.Timeout)
	defer cancel()
	ctx, interrupt := context.WithCancelCause(ctx)
	defer interrupt(nil)
	turn := shells{g}.newTurn(of, p, interrupt)
	defer shells{g}.forget(turn)
	turn.start()
	argv := []string{"/bin/sh", "-c", p.Command}
	ended, err := g.Hands.Execute(ctx, Process{Cap: mostOutput,
		Command: Command{Thread: p.Thread, User: of.User(), Dir: Directory, Argv: argv}})
	text := string(ended.Stdout) + string(ended.Stderr)
	if ended.Cut {
		text += fmt.Sprintf("\n… of each stream, what follows %d KiB is left out …", mostOutput>>10)
	}
	if err != nil {
		ended.Status = 1
		text += "\n" + err.Error()
	}
	turn.end(ended, text, errors.Is(err, errInterrupted))
	if g.Inject != nil {
		if err := g.Inject(context.WithoutCancel(ctx), p.Thread, []any{note(p.Command, ended, text)}); err != nil {
			g.Hands.Logger.Warn("the model does not read the output of a person's command",
				"thread_id", p.Thread, "error", err)
		}
	}
	return nil
}

// shells are the commands of people that run.
type shells struct{ *Gate }

// personsTurn is the turn of a person's command, as one client sees it.
type personsTurn struct {
	of        Client
	params    shellParams
	id        string
	within    string // the turn of the model that runs, in which the command is an item; empty: it has its own
	began     time.Time
	interrupt context.CancelCauseFunc
}

// turnID is the turn that the client sees the command in.
func (t *personsTurn) turnID() string { return cmp.Or(t.within, t.id) }

// newTurn is a command that runs. As in codex, it ends with the turn that it is in.
func (g shells) newTurn(of Client, p shellParams, interrupt context.CancelCauseFunc) *personsTurn {
	now := time.Now()
	t := &personsTurn{of: of, params: p, id: newTurnID(now), began: now, interrupt: interrupt}
	if g.Turn != nil {
		t.within = g.Turn(p.Thread)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.turns == nil {
		g.turns = map[*personsTurn]struct{}{}
	}
	g.turns[t] = struct{}{}
	return t
}

func (g shells) forget(t *personsTurn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.turns, t)
}

const interruptMethod = "turn/interrupt"

// errInterrupted is why a command has ended.
var errInterrupted = errors.New("command aborted by user")

// interruptParams are the parameters of turn/interrupt.
type interruptParams struct {
	Thread string `json:"threadId"`
	Turn   string `json:"turnId"`
}

// shellsOf are the commands that run in a turn.
func (g shells) shellsOf(params []byte) (list []*personsTurn) {
	var p interruptParams
	if jsonscan.Unmarshal(params, &p) != nil || p.Turn == "" {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for t := range g.turns {
		if t.params.Thread == p.Thread && t.turnID() == p.Turn {
			list = append(list, t)
		}
	}
	return list
}

// isOfShell reports whether turn/interrupt is about a turn that codex does not know.
func (g shells) isOfShell(params []byte) bool {
	list := g.shellsOf(params)
	return len(list) > 0 && list[0].within == ""
}

// interrupt is turn/interrupt of such a turn.
func (g shells) interrupt(_ context.Context, of Client, params []byte) error {
	g.interruptShells(params)
	return of.Answer(struct{}{})
}

// interruptShells ends the commands in a turn.
func (g shells) interruptShells(params []byte) {
	for _, t := range g.shellsOf(params) {
		t.interrupt(errInterrupted)
	}
}

func (t *personsTurn) turn(status string) map[string]any {
	turn := map[string]any{"id": t.id, "items": []any{}, "status": status, "startedAt": t.began.Unix()}
	if status != "inProgress" {
		turn["completedAt"], turn["durationMs"] = time.Now().Unix(), time.Since(t.began).Milliseconds()
	}
	return map[string]any{"threadId": t.params.Thread, "turn": turn}
}

func (t *personsTurn) item(status string) map[string]any {
	return map[string]any{"type": "commandExecution", "id": "shell-" + t.id, "command": t.params.Command,
		"cwd": Directory, "source": "userShell", "status": status, "commandActions": []any{}}
}

func (t *personsTurn) start() {
	if t.within == "" {
		_ = t.of.Notify("turn/started", t.turn("inProgress")) // it may have gone
	}
	_ = t.of.Notify("item/started", map[string]any{"threadId": t.params.Thread, "turnId": t.turnID(),
		"startedAtMs": t.began.UnixMilli(), "item": t.item("inProgress")})
}

func (t *personsTurn) end(ended Ended, text string, interrupted bool) {
	status, turn := "completed", "completed"
	if ended.Status != 0 {
		status = "failed"
	}
	if interrupted {
		turn = "interrupted"
	}
	item := t.item(status)
	item["aggregatedOutput"], item["exitCode"], item["durationMs"] = fitted(text, fitOne), ended.Status,
		time.Since(t.began).Milliseconds()
	_ = t.of.Notify("item/completed", map[string]any{"threadId": t.params.Thread, "turnId": t.turnID(),
		"completedAtMs": time.Now().UnixMilli(), "item": item})
	if t.within == "" {
		_ = t.of.Notify("turn/completed", t.turn(turn))
	}
}

// note is the item by which the model reads of the command, in the form of codex.
func note(command string, ended Ended, text string) any {
	words := fmt.Sprintf("<user_shell_command>\n<command>\n%s\n</command>\n<result>\nExit code: %d\n"+
		"Duration: %.4f seconds\nOutput:\n%s\n</result>\n</user_shell_command>",
		shortened(command), ended.Status, ended.Took.Seconds(), shortened(text))
	return map[string]any{"type": "message", "role": "user",
		"content": []any{map[string]any{"type": "input_text", "text": words}}}
}

// mostNoted bounds a text for the model, in bytes: codex shortens none that we add, and the model reads it with each
// request that follows.
const mostNoted = 40 << 10

// shortened has the beginning and the end of a text.
func shortened(text string) string {
	if len(text) <= mostNoted {
		return text
	}
	const half = mostNoted / 2
	return fmt.Sprintf("%s\n… %d bytes omitted …\n%s", strings.ToValidUTF8(text[:half], ""), len(text)-2*half,
		strings.ToValidUTF8(text[len(text)-half:], ""))
}
