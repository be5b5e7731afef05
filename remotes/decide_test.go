package remotes

import (
	"encoding/json"
	"testing"

	"codex-proxy/remotes/codexthread"
	"codex-proxy/remotes/remoteconfig"
	"codex-proxy/remotes/turnjournal"

	"github.com/stretchr/testify/assert"
)

func said(id, text string) turnjournal.Input {
	b, _ := json.Marshal([]map[string]string{{"type": "text", "text": text}})
	return turnjournal.Input{ClientID: id, Content: b}
}

func had(id, text string) codexthread.Item {
	return codexthread.Item{Type: "userMessage", ClientID: id, Content: said(id, text).Content}
}

func TestDecide(t *testing.T) {
	always := policy{remoteconfig.Always, 3}
	cut := []codexthread.Turn{{ID: "t2", Status: codexthread.Interrupted, Items: []codexthread.Item{had("m2", "two")}}, {ID: "t1", Status: codexthread.Completed}}
	for name, c := range map[string]struct {
		r    turnjournal.Record
		last []codexthread.Turn
		p    policy
		want verdict
	}{
		"a cut turn goes on": {
			turnjournal.Record{Turn: "t2", Inputs: []turnjournal.Input{said("m2", "two")}}, cut, always, verdict{action: proceed, cut: true}},
		"a cut turn whose start the manager did not see goes on": {
			turnjournal.Record{Inputs: []turnjournal.Input{said("m2", "two")}}, cut, always, verdict{action: proceed, cut: true}},
		"a turn that continued and left nothing goes on again": {
			turnjournal.Record{Turn: "t3", Continued: 1, Mended: "t2"}, []codexthread.Turn{{ID: "t2", Status: codexthread.Completed}}, always,
			verdict{action: proceed, cut: true}},
		"a message that codex lost is sent again, with the turn that it was for": {
			turnjournal.Record{Turn: "t2", Inputs: []turnjournal.Input{said("m2", "two"), said("m3", "three")}}, cut, always,
			verdict{action: proceed, cut: true, inputs: []turnjournal.Input{said("m3", "three")}}},
		"a message that codex lost before its turn is sent again, also if turns never go on": {
			turnjournal.Record{Inputs: []turnjournal.Input{said("m3", "three")}}, []codexthread.Turn{{ID: "t1", Status: codexthread.Completed}}, policy{remoteconfig.Never, 3},
			verdict{action: proceed, inputs: []turnjournal.Input{said("m3", "three")}}},
		"a message to a thread without any turn is sent again": {
			turnjournal.Record{Inputs: []turnjournal.Input{said("m1", "one")}}, nil, always,
			verdict{action: proceed, inputs: []turnjournal.Input{said("m1", "one")}}},
		"a turn that runs is left alone": {
			turnjournal.Record{Turn: "t2"}, []codexthread.Turn{{ID: "t2", Status: codexthread.InProgress}}, always, verdict{action: adopt}},
		"a turn that ended unseen is over": {
			turnjournal.Record{Turn: "t2", Inputs: []turnjournal.Input{said("m2", "two")}},
			[]codexthread.Turn{{ID: "t2", Status: codexthread.Completed, Items: []codexthread.Item{had("m2", "two")}}}, always, verdict{action: forget}},
		"a turn that failed is over": {
			turnjournal.Record{Turn: "t2"}, []codexthread.Turn{{ID: "t2", Status: "failed"}}, always, verdict{action: forget}},
		"a turn that waits for quota waits on, if codex ended as it was to start again": {
			turnjournal.Record{Turn: "t2", Quota: true}, []codexthread.Turn{{ID: "t2", Status: "failed"}}, always, verdict{action: ask}},
		"a message that codex lost is sent again, also if the turn before it waits for quota": {
			turnjournal.Record{Turn: "t2", Quota: true, Inputs: []turnjournal.Input{said("m3", "three")}},
			[]codexthread.Turn{{ID: "t2", Status: "failed"}}, always, verdict{action: proceed, inputs: []turnjournal.Input{said("m3", "three")}}},
		"its user interrupted it": {
			turnjournal.Record{Turn: "t2", Interrupted: "t2"}, cut, always, verdict{action: forget}},
		"its user interrupted it without knowing it": {
			turnjournal.Record{Interrupted: turnjournal.AnyTurn}, cut, always, verdict{action: forget}},
		"codex wrote down that its user interrupted it": {
			turnjournal.Record{Turn: "t2"}, []codexthread.Turn{{ID: "t2", Status: codexthread.Aborted}}, always, verdict{action: forget}},
		"its user interrupted the turn before": {
			turnjournal.Record{Turn: "t2", Interrupted: "t1"}, cut, always, verdict{action: proceed, cut: true}},
		"a shell command of the user does not go on": {
			turnjournal.Record{Turn: "t2", Kind: "shell"}, cut, always, verdict{action: forget}},
		"the limit": {
			turnjournal.Record{Turn: "t2", Continued: 3}, cut, always, verdict{action: giveUp, cut: true}},
		"ask": {
			turnjournal.Record{Turn: "t2"}, cut, policy{remoteconfig.Ask, 3}, verdict{action: ask, cut: true}},
		"its user was asked before": {
			turnjournal.Record{Turn: "t2", Asked: true}, []codexthread.Turn{{ID: "t3", Status: codexthread.Completed}}, policy{remoteconfig.Ask, 3}, verdict{action: ask}},
		"never": {
			turnjournal.Record{Turn: "t2"}, cut, policy{remoteconfig.Never, 3}, verdict{action: leave, cut: true}},
		"without ids, messages are compared by their content": {
			turnjournal.Record{Turn: "t2", Inputs: []turnjournal.Input{said("", "two")}},
			[]codexthread.Turn{{ID: "t2", Status: codexthread.Interrupted, Items: []codexthread.Item{had("", "two")}}}, always,
			verdict{action: proceed, cut: true}},
		"the same words in an earlier turn are another message": {
			turnjournal.Record{After: "t1", Inputs: []turnjournal.Input{said("", "go on")}},
			[]codexthread.Turn{{ID: "t1", Status: codexthread.Completed, Items: []codexthread.Item{had("", "go on")}}}, always,
			verdict{action: proceed, inputs: []turnjournal.Input{said("", "go on")}}},
		"two messages with the same words, of which codex has one": {
			turnjournal.Record{Turn: "t2", Inputs: []turnjournal.Input{said("", "go on"), said("", "go on")}},
			[]codexthread.Turn{{ID: "t2", Status: codexthread.Interrupted, Items: []codexthread.Item{had("", "go on")}}}, always,
			verdict{action: proceed, cut: true, inputs: []turnjournal.Input{said("", "go on")}}},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, c.want, decide(c.r, c.last, c.p)) })
	}
}

func TestContinuation(t *testing.T) {
	for want, lost := range map[string][]turnjournal.Input{
		`{"threadId":"T","input":[]}`: nil,
		`{"threadId":"T","input":[{"type":"text","text":"one"}],"clientUserMessageId":"m","model":"x","effort":"high"}`: {
			{ClientID: "m", Content: said("", "one").Content, Settings: settings([]byte(
				`{"threadId":"T","input":[1],"clientUserMessageId":"m","model":"x","effort":"high","cwd":null}`))}},
		`{"threadId":"T","input":[{"type":"text","text":"one"},{"type":"text","text":"two"}],"clientUserMessageId":"m"}`: {
			said("m", "one"), said("n", "two")},
	} {
		b, err := json.Marshal(continuation("T", merged(lost)))
		assert.NoError(t, err)
		assert.JSONEq(t, want, string(b))
	}
}
