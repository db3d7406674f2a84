package client

import (
	"context"
	"time"
)

// SetPause replaces the pauses between rounds.
func (c *Client) SetPause(f func(context.Context, time.Duration) error) { c.pause = f }

// SetNow replaces the clock that patience goes by.
func (c *Client) SetNow(f func() time.Time) { c.now = f }

// What a hostile reply is held to.
const (
	MaxReply     = maxReply
	MaxContainer = maxContainer
	MaxRounds    = maxRounds
	MaxRedirects = maxRedirects
	MaxHangups   = maxHangups
)
