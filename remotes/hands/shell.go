package hands

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"
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
	turn := personsTurn{of: of, params: p, id: rand.Text(), began: time.Now()}
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
	turn.end(ended, text)
	if g.Inject != nil {
		if err := g.Inject(context.WithoutCancel(ctx), p.Thread, []any{note(p.Command, ended, text)}); err != nil {
			g.Hands.Logger.Warn("the model does not read the output of a person's command", "remote", g.Hands.Remote,
				"thread_id", p.Thread, "error", err)
		}
	}
	return nil
}

// personsTurn is the turn of a person's command, as one client sees it.
type personsTurn struct {
	of     Client
	params shellParams
	id     string
	began  time.Time
}

func (t personsTurn) turn(status string) map[string]any {
	turn := map[string]any{"id": t.id, "items": []any{}, "status": status, "startedAt": t.began.Unix()}
	if status != "inProgress" {
		turn["completedAt"], turn["durationMs"] = time.Now().Unix(), time.Since(t.began).Milliseconds()
	}
	return map[string]any{"threadId": t.params.Thread, "turn": turn}
}

func (t personsTurn) item(status string) map[string]any {
	return map[string]any{"type": "commandExecution", "id": "shell-" + t.id, "command": t.params.Command,
		"cwd": Directory, "source": "userShell", "status": status, "commandActions": []any{}}
}

func (t personsTurn) start() {
	_ = t.of.Notify("turn/started", t.turn("inProgress")) // it may have gone
	_ = t.of.Notify("item/started", map[string]any{"threadId": t.params.Thread, "turnId": t.id,
		"startedAtMs": t.began.UnixMilli(), "item": t.item("inProgress")})
}

func (t personsTurn) end(ended Ended, text string) {
	status := "completed"
	if ended.Status != 0 {
		status = "failed"
	}
	item := t.item(status)
	item["aggregatedOutput"], item["exitCode"], item["durationMs"] = text, ended.Status, ended.Took.Milliseconds()
	_ = t.of.Notify("item/completed", map[string]any{"threadId": t.params.Thread, "turnId": t.id,
		"completedAtMs": time.Now().UnixMilli(), "item": item})
	_ = t.of.Notify("turn/completed", t.turn("completed"))
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
