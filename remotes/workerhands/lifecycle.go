package workerhands

import (
	"cmp"
	"context"
	"crypto/rand"
	"os"
	"path/filepath"
	"sync"
	"time"

	"codex-proxy/remotes/hands"
	"codex-proxy/runner/api/wire"
)

const (
	// openBound bounds the start of an exec-server, with the set-up of the repository.
	openBound = 55 * time.Minute
	// endBound bounds the end of one.
	endBound = 2 * time.Minute
)

// lifecycle starts and ends the exec-servers of sessions, and ends sessions. Each session has one change at a time.
type lifecycle struct{ *Sessions }

// open starts the exec-server of a session, in the workspace that is there or in a new one.
func (l lifecycle) open(ctx context.Context, one *session) error {
	h, err := l.handsOf(one)
	if err == nil {
		err = l.prepare(one)
	}
	before := ""
	if err == nil {
		before = h.Session()
		bounded, cancel := context.WithTimeout(ctx, openBound)
		err = h.Open(bounded)
		cancel()
	}
	if err != nil {
		l.Logger.Warn("hands do not start", "key", one.Key, "conversation", one.Name, "error", err)
		if h == nil && !one.hasBegun() || h != nil && !h.Served() {
			err = cmp.Or(err, l.remove(context.WithoutCancel(ctx), one, h))
		}
		return unavailable("the session does not start: " + err.Error())
	}
	running, stop := context.WithCancel(ctx)
	var keeping sync.WaitGroup
	keeping.Go(func() { h.Run(running) })
	after := h.Session()
	l.mu.Lock()
	defer l.mu.Unlock()
	if one.hands = h; after != before {
		one.checkouts++
	}
	one.end = func() { stop(); keeping.Wait() }
	return nil
}

// prepare gives the exec-server an address of its own: at the address of an earlier one, codex would go on with that
// one's processes. An address in the record stays: after a crash of this process a turn may wait at it.
func (l lifecycle) prepare(one *session) error {
	l.mu.Lock()
	if one.Run == "" {
		one.Run, one.Token = rand.Text(), rand.Text()+rand.Text()
	}
	r := one.record
	l.mu.Unlock()
	return l.write(one.dir, r)
}

// handsOf are the hands of a session, by its record.
func (l lifecycle) handsOf(one *session) (*hands.Hands, error) {
	program, err := l.Program()
	if err != nil {
		return nil, err
	}
	setUp, err := l.Hands.ReadSetUp()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(one.dir, 0o700); err != nil {
		return nil, err
	}
	return hands.New(hands.Options{
		Mark: "codex-hands@" + l.Worker + "/" + filepath.Base(one.dir), Dir: one.dir,
		Idle: l.Hands.Idle, Client: l.Client, Program: program,
		Source: hands.Source{Repo: l.Hands.Repo, Ref: l.Hands.Ref, SetUp: setUp},
		Limits: wire.Limits{Timeout: wire.Duration(l.Hands.Timeout), CPUs: l.Hands.CPUs, Memory: l.Hands.Memory,
			Tasks: l.Hands.Tasks, FileSize: l.Hands.FileSize, Disk: l.Hands.Disk},
		Send: l.Send, Logger: l.Logger.With("key", one.Key, "conversation", one.Name),
		Renewed: func() { l.renewed(one) },
	})
}

// renewed notes that the workspace of a session has become another checkout.
func (l lifecycle) renewed(one *session) {
	l.mu.Lock()
	defer l.mu.Unlock()
	one.checkouts++
}

// close ends the exec-server of a session, and forgets its address. The workspace stays.
func (l lifecycle) close(ctx context.Context, one *session) error {
	l.mu.Lock()
	one.Run, one.Token = "", ""
	r := one.record
	l.mu.Unlock()
	err := l.write(one.dir, r)
	return cmp.Or(l.endServer(context.WithoutCancel(ctx), one), err)
}

// endServer ends the exec-server of a session, with its processes.
func (l lifecycle) endServer(ctx context.Context, one *session) error {
	l.mu.Lock()
	h, end := one.hands, one.end
	one.hands, one.end = nil, nil
	l.mu.Unlock()
	if h == nil {
		return nil
	}
	end()
	ctx, cancel := context.WithTimeout(ctx, endBound)
	defer cancel()
	return h.Close(ctx)
}

// finish ends a session. codex-runner keeps the changes, unless it was of one turn.
func (l lifecycle) finish(ctx context.Context, one *session) error {
	l.mu.Lock()
	h, end := one.hands, one.end
	one.hands, one.end, one.Run, one.Token = nil, nil, "", "" // codex tries to reach it again
	l.mu.Unlock()
	if h != nil {
		end()
	}
	return l.remove(context.WithoutCancel(ctx), one, h)
}

// remove closes the session of codex-runner, and removes it from the list.
func (l lifecycle) remove(ctx context.Context, one *session, h *hands.Hands) error {
	ctx, cancel := context.WithTimeout(ctx, endBound)
	defer cancel()
	var err error
	if h == nil {
		h, err = l.handsOf(one)
	}
	if err == nil {
		err = h.End(ctx, !one.OfTurn)
	}
	err = cmp.Or(err, os.RemoveAll(one.dir))
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.all, filepath.Base(one.dir))
	return err
}
