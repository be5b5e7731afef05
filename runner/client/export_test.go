package client

import "time"

// SetPatience sets how long a lost connection is tried again.
func (c *Client) SetPatience(d time.Duration) { c.patience = d }
