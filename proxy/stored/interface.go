package stored

import (
	"context"
	"encoding/json"

	"codex-proxy/proxy/eventlog"
)

// Store keeps responses. A File is the Store of one host; package shared has the one of several hosts.
type Store interface {
	ResponseStore
	ConversationStore
	BackgroundStore

	// Logs are the logs of streamed background responses of this host.
	Logs() *eventlog.Logs
	// Bytes is how many bytes all responses and conversations together may have.
	Bytes() int64
	// Run keeps the store within its limits until ctx ends; then it returns nil.
	Run(ctx context.Context) error
	Close() error
}

// ResponseStore is as Responses.
type ResponseStore interface {
	Put(ctx context.Context, r Response) error
	Renew(ctx context.Context, owner, id string) error
	Delete(ctx context.Context, owner, id string) error
	Object(ctx context.Context, owner, id string) (json.RawMessage, error)
	ObjectSize(ctx context.Context, owner, id string) (int64, error)
	ObjectPart(ctx context.Context, owner, id string, from, n int64) ([]byte, error)
	Item(ctx context.Context, owner, id string) (Item, error)
	About(ctx context.Context, owner, id string) (worker string, size int64, err error)
	Root(ctx context.Context, owner, id string) (json.RawMessage, error)
	History(ctx context.Context, owner, id string) ([]Item, error)
	InputHeads(ctx context.Context, owner, id string, encrypted bool) ([]Head, error)
	BodyPart(ctx context.Context, h Head, from, n int64) ([]byte, error)
}

// ConversationStore is as Conversations.
type ConversationStore interface {
	CreateConversation(ctx context.Context, c Conversation, items []Item) error
	Conversation(ctx context.Context, owner, id string) (Conversation, error)
	UpdateConversation(ctx context.Context, owner, id string, metadata json.RawMessage) (Conversation, error)
	DeleteConversation(ctx context.Context, owner, id string) error
	Extend(ctx context.Context, owner, id, worker string, items []Item) error
	ConversationAbout(ctx context.Context, owner, id string) (worker string, size int64, err error)
	ConversationItems(ctx context.Context, owner, id string) ([]Item, error)
	ConversationHeads(ctx context.Context, owner, id string, l Listing) (heads []Head, more bool, err error)
	ConversationHead(ctx context.Context, owner, id, item string, encrypted bool) (Head, error)
	DeleteConversationItem(ctx context.Context, owner, id, item string) error
	Claim(conversation, response string) error
	Yield(conversation, response string)
	Change(ctx context.Context, conversation string, change func(context.Context) error) error
}

// BackgroundStore is as Background.
type BackgroundStore interface {
	Begin(ctx context.Context, f InFlight, object, request []byte, streamed bool) error
	Retract(ctx context.Context, id string) error
	Request(ctx context.Context, id string) ([]byte, error)
	RequestSize(ctx context.Context, id string) (int64, error)
	Progress(ctx context.Context, id string, object []byte) error
	InFlight(ctx context.Context, owner, id string) (InFlight, error)
	InFlightObject(ctx context.Context, owner, id string) ([]byte, error)
	Cancel(ctx context.Context, owner, id string) error
	Ordered(ctx context.Context) (ids []string, err error)
	Finish(ctx context.Context, r Response) error
	EndAbandoned(ctx context.Context, end End) (Abandoned, error)
	Log(ctx context.Context, owner, id string) (Log, error)
	LoseLog(ctx context.Context, id string) error
	// ReadLog returns a reader of the events of a response after the number after. The error is ErrElsewhere if
	// another host has them, until the response has ended.
	ReadLog(ctx context.Context, owner, id string, after int) (*eventlog.Reader, error)
}
