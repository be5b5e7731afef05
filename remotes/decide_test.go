package remotes

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
)

func said(id, text string) input {
	b, _ := json.Marshal([]map[string]string{{"type": "text", "text": text}})
	return input{ClientID: id, Content: b}
}

func had(id, text string) item {
	return item{Type: "userMessage", ClientID: id, Content: said(id, text).Content}
}

func TestDecide(t *testing.T) {
	always := policy{Always, 3}
	cut := []turn{{ID: "t2", Status: turnInterrupted, Items: []item{had("m2", "two")}}, {ID: "t1", Status: turnCompleted}}
	for name, c := range map[string]struct {
		r    record
		last []turn
		p    policy
		want verdict
	}{
		"a cut turn goes on": {
			record{Turn: "t2", Inputs: []input{said("m2", "two")}}, cut, always, verdict{action: proceed, cut: true}},
		"a cut turn whose start the keeper did not see goes on": {
			record{Inputs: []input{said("m2", "two")}}, cut, always, verdict{action: proceed, cut: true}},
		"a turn that continued and left nothing goes on again": {
			record{Turn: "t3", Continued: 1, Mended: "t2"}, []turn{{ID: "t2", Status: turnCompleted}}, always,
			verdict{action: proceed, cut: true}},
		"a message that codex lost is sent again, with the turn that it was for": {
			record{Turn: "t2", Inputs: []input{said("m2", "two"), said("m3", "three")}}, cut, always,
			verdict{action: proceed, cut: true, inputs: []input{said("m3", "three")}}},
		"a message that codex lost before its turn is sent again, also if turns never go on": {
			record{Inputs: []input{said("m3", "three")}}, []turn{{ID: "t1", Status: turnCompleted}}, policy{Never, 3},
			verdict{action: proceed, inputs: []input{said("m3", "three")}}},
		"a message to a thread without any turn is sent again": {
			record{Inputs: []input{said("m1", "one")}}, nil, always,
			verdict{action: proceed, inputs: []input{said("m1", "one")}}},
		"a turn that runs is left alone": {
			record{Turn: "t2"}, []turn{{ID: "t2", Status: turnInProgress}}, always, verdict{action: adopt}},
		"a turn that ended unseen is over": {
			record{Turn: "t2", Inputs: []input{said("m2", "two")}},
			[]turn{{ID: "t2", Status: turnCompleted, Items: []item{had("m2", "two")}}}, always, verdict{action: forget}},
		"a turn that failed is over": {
			record{Turn: "t2"}, []turn{{ID: "t2", Status: "failed"}}, always, verdict{action: forget}},
		"a turn that waits for quota waits on, if codex ended as it was to start again": {
			record{Turn: "t2", Quota: true}, []turn{{ID: "t2", Status: "failed"}}, always, verdict{action: ask}},
		"its user interrupted it": {
			record{Turn: "t2", Interrupted: "t2"}, cut, always, verdict{action: forget}},
		"its user interrupted it without knowing it": {
			record{Interrupted: anyTurn}, cut, always, verdict{action: forget}},
		"codex wrote down that its user interrupted it": {
			record{Turn: "t2"}, []turn{{ID: "t2", Status: turnAborted}}, always, verdict{action: forget}},
		"its user interrupted the turn before": {
			record{Turn: "t2", Interrupted: "t1"}, cut, always, verdict{action: proceed, cut: true}},
		"a shell command of the user does not go on": {
			record{Turn: "t2", Kind: "shell"}, cut, always, verdict{action: forget}},
		"the limit": {
			record{Turn: "t2", Continued: 3}, cut, always, verdict{action: giveUp, cut: true}},
		"ask": {
			record{Turn: "t2"}, cut, policy{Ask, 3}, verdict{action: ask, cut: true}},
		"its user was asked before": {
			record{Turn: "t2", Asked: true}, []turn{{ID: "t3", Status: turnCompleted}}, policy{Ask, 3}, verdict{action: ask}},
		"never": {
			record{Turn: "t2"}, cut, policy{Never, 3}, verdict{action: leave, cut: true}},
		"without ids, messages are compared by their content": {
			record{Turn: "t2", Inputs: []input{said("", "two")}},
			[]turn{{ID: "t2", Status: turnInterrupted, Items: []item{had("", "two")}}}, always,
			verdict{action: proceed, cut: true}},
		"the same words in an earlier turn are another message": {
			record{After: "t1", Inputs: []input{said("", "go on")}},
			[]turn{{ID: "t1", Status: turnCompleted, Items: []item{had("", "go on")}}}, always,
			verdict{action: proceed, inputs: []input{said("", "go on")}}},
		"two messages with the same words, of which codex has one": {
			record{Turn: "t2", Inputs: []input{said("", "go on"), said("", "go on")}},
			[]turn{{ID: "t2", Status: turnInterrupted, Items: []item{had("", "go on")}}}, always,
			verdict{action: proceed, cut: true, inputs: []input{said("", "go on")}}},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, c.want, decide(c.r, c.last, c.p)) })
	}
}

func TestContinuation(t *testing.T) {
	for want, lost := range map[string][]input{
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

func TestParseContinue(t *testing.T) {
	for text, want := range map[string]Continue{"": Always, "always": Always, "ask": Ask, "never": Never} {
		got, err := ParseContinue(text)
		assert.NoError(t, err)
		assert.Equal(t, want, got)
	}
	_, err := ParseContinue("perhaps")
	assert.EqualError(t, err, `"perhaps" is not one of "always", "ask", "never"`)
}
