package agent

import (
	"context"
	"io"
	"slices"

	"metier/agent/step"
	"metier/internal/digest"
	"metier/model"
)

// conversation is the messages of the machine as the model is sent them. A turn
// adds what is new, so that a long conversation is not made again each turn.
// The zero value is an empty one.
type conversation struct {
	sent  []model.Message // those before the first of the machine's included
	first int             // place of that first one
	taken int             // messages of the machine that are in it
	given int             // messages that a request had: what they hold stays as it is
	head  string          // lines of what is sent before the machine's messages
	lines []string        // one for each message of the machine
	sum   *digest.Hasher  // of head and lines; nil: not made yet
}

// begin sets what comes before the machine's messages, and its lines.
func (c *conversation) begin(head string, before []model.Message) {
	if c.head != head {
		c.head, c.sum = head, nil
		c.sent = slices.Concat(before, c.sent[c.first:])
		c.first = len(before)
	}
	c.given = len(c.sent)
}

// add turns the machine's messages that are not in it yet into the model's.
// Neighbors of one role become one message, since some providers want roles to
// alternate.
func (c *conversation) add(ctx context.Context, d *driver, all []step.Message) error {
	for _, m := range all[c.taken:] {
		var msg model.Message
		var err error
		line := string(m.Role) + " " + m.Content.Digest
		if m.Role == model.RoleTool {
			var asked model.Message
			if n := len(c.sent); n > c.first {
				asked = c.sent[n-1]
			}
			msg = d.results(ctx, m, asked)
			line = resultNames(m, msg)
		} else if msg, err = d.message(ctx, m); err != nil {
			return err
		}
		c.put(msg)
		c.taken++
		c.note(line)
	}
	return nil
}

func (c *conversation) put(msg model.Message) {
	n := len(c.sent)
	if n == c.first || msg.Role != model.RoleUser || c.sent[n-1].Role != model.RoleUser {
		c.sent = append(c.sent, msg)
		return
	}
	if n <= c.given { // whoever was sent it may still read it
		c.sent, c.given = slices.Clone(c.sent), 0
	}
	c.sent[n-1].Parts = slices.Concat(c.sent[n-1].Parts, msg.Parts)
}

func (c *conversation) note(line string) {
	c.lines = append(c.lines, line)
	if c.sum != nil {
		writeLine(c.sum, line)
	}
}

func (c *conversation) digest() string {
	if c.sum == nil {
		c.sum = digest.New()
		_, _ = io.WriteString(c.sum, c.head) // a Hasher does not fail
		for _, line := range c.lines {
			writeLine(c.sum, line)
		}
	}
	return c.sum.Sum()
}

func writeLine(h *digest.Hasher, line string) {
	_, _ = io.WriteString(h, "\n"+line) // a Hasher does not fail
}
