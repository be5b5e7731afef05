// Package webpush makes the messages of Web Push, as a push service takes them and a browser reads them: their
// encryption (RFC 8291, RFC 8188), and the signature by which the service knows the sender (VAPID, RFC 8292).
package webpush

import (
	"crypto/ecdh"
	"encoding/base64"
	"errors"
	"net/url"
)

const (
	// maxEndpoint bounds the address of a browser at its push service, in bytes. Those of browsers have 200 to 600.
	maxEndpoint = 1024
	// pointSize is the size of a public key: a point of P-256 that is not compressed.
	pointSize  = 65
	secretSize = 16
)

// Subscription is the way to one browser, with the names that it has in JavaScript (PushSubscription).
type Subscription struct {
	Endpoint string `json:"endpoint"` // a URL of the push service; it is a secret
	P256dh   string `json:"p256dh"`   // the public key of the browser
	Auth     string `json:"auth"`     // a secret that the browser shares with the sender
}

// Check refuses a subscription that no message can go to.
func (s Subscription) Check() error {
	if _, err := Origin(s.Endpoint); err != nil {
		return err
	}
	_, _, err := s.keys()
	return err
}

// Origin is the push service of an endpoint, scheme and host. An endpoint is an https URL without a user and a
// fragment.
func Origin(endpoint string) (string, error) {
	u, err := url.Parse(endpoint)
	switch {
	case err != nil || len(endpoint) > maxEndpoint:
		return "", errors.New("the endpoint of the push service is no URL of up to 1024 bytes")
	case u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.Fragment != "":
		return "", errors.New("the endpoint of the push service must be an https URL without a user and a fragment")
	}
	return u.Scheme + "://" + u.Host, nil
}

// keys are the public key of the browser and the shared secret.
func (s Subscription) keys() (*ecdh.PublicKey, []byte, error) {
	point, err := base64.RawURLEncoding.DecodeString(s.P256dh)
	if err != nil || len(point) != pointSize {
		return nil, nil, errors.New("p256dh is no key of a browser: 65 bytes in base64url")
	}
	key, err := ecdh.P256().NewPublicKey(point)
	if err != nil {
		return nil, nil, errors.New("p256dh is no key of a browser: it is not on the curve P-256")
	}
	secret, err := base64.RawURLEncoding.DecodeString(s.Auth)
	if err != nil || len(secret) != secretSize {
		return nil, nil, errors.New("auth is no secret of a browser: 16 bytes in base64url")
	}
	return key, secret, nil
}
