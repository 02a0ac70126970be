package server

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"metier/internal/termtext"
)

// Limits of what clients over HTTP write to the records of their sessions.
const (
	mostRecord   = 64 << 20 // bytes of one session's calls
	mostWritten  = 2 << 30  // bytes of a principal's sessions in writtenTime
	mostRecords  = 10_000   // sessions of a principal in writtenTime
	recordFolder = 32 << 10 // bytes that the folder and the heads of a record take before its content
	writtenTime  = 24 * time.Hour
)

const codeFull = "record_full"

// written counts what principals wrote to the records of their sessions in a period of writtenTime,
// which begins with the first write after the last period. Records are kept, so closing a session does
// not reduce the count.
type written struct {
	mu    sync.Mutex
	since time.Time
	by    map[string]amount
}

// amount is a number of bytes in a number of records.
type amount struct{ bytes, records int64 }

// add adds an amount, and returns the total of the principal in the current period.
func (w *written) add(by string, n amount, now time.Time) amount {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.by == nil || now.Sub(w.since) >= writtenTime {
		w.since, w.by = now, map[string]amount{}
	}
	sum := w.by[by]
	sum.bytes, sum.records = sum.bytes+n.bytes, sum.records+n.records
	w.by[by] = sum
	return sum
}

// count counts what the calls of a client have recorded. opening is set for what opening its session
// recorded, including the record's folder, which counts only toward the principal's limit.
func (s *Server) count(c *client, opening bool) {
	if c.session == nil || c.key.Process {
		return
	}
	now := c.session.Recorded()
	s.mu.Lock()
	n := max(now-c.counted, 0)
	c.counted = max(now, c.counted)
	if opening {
		n += recordFolder
	} else {
		c.wrote += n
	}
	wrote := c.wrote
	s.mu.Unlock()
	if !opening && wrote >= s.opts.SessionRecord && wrote-n < s.opts.SessionRecord {
		s.opts.OnRecordFull(codeFull, fmt.Sprintf("the calls of a session of %s have recorded %d bytes, and the limit is %d, so the session ends", termtext.Quote(c.by), wrote, s.opts.SessionRecord))
	}
	if sum := s.written.add(c.by, amount{bytes: n}, s.opts.Now()).bytes; sum >= s.opts.PrincipalRecords && sum-n < s.opts.PrincipalRecords {
		s.opts.OnRecordFull(codeFull, fmt.Sprintf("the sessions of %s have recorded %d bytes in less than 24 hours, and the limit is %d, so further calls are refused until the 24 hours are over", termtext.Quote(c.by), sum, s.opts.PrincipalRecords))
	}
}

// refreshed updates a session to the new skills. The bytes that this records do not count toward the
// limits. Those of calls that end meanwhile may not count either.
func (s *Server) refreshed(ctx context.Context, c *client) error {
	before := c.session.Recorded()
	err := c.session.Refresh(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	c.counted += c.session.Recorded() - before
	return err
}

// full refuses a call if its principal has written too much.
func (s *Server) full(by string) error {
	if s.written.add(by, amount{}, s.opts.Now()).bytes < s.opts.PrincipalRecords {
		return nil
	}
	return recordFull("the records of this client have grown as much as they can in a day; try again tomorrow, or ask the server's operator")
}

// noMore refuses to open a session if its principal has opened too many.
func (s *Server) noMore(by string) error {
	if s.written.add(by, amount{}, s.opts.Now()).records < s.opts.PrincipalSessions {
		return nil
	}
	return recordFull("this client has opened as many sessions as it can in a day; use an open one, try again tomorrow, or ask the server's operator")
}

// opens counts a session that a principal's client opens.
func (s *Server) opens(by string) {
	if n := s.written.add(by, amount{records: 1}, s.opts.Now()).records; n == s.opts.PrincipalSessions {
		s.opts.OnRecordFull(codeFull, fmt.Sprintf("%s has opened %d sessions in less than 24 hours, which is the limit, so further ones are refused until the 24 hours are over", termtext.Quote(by), n))
	}
}

// overflows refuses a call of a session whose record is full. It ends the session once this call is
// answered and the others are made, because the library does not answer calls of a closed session.
func (s *Server) overflows(req mcp.Request, c *client) error {
	ss, is := req.GetSession().(*mcp.ServerSession)
	end := func() {
		s.leaving.Go(func() { c.calls.Wait(); _ = ss.Close() })
	}
	if is && !s.requests.later(req, end) {
		end()
	}
	return recordFull("the session ends because its record is full; open a new session and make this call again")
}

func recordFull(text string) error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: codeFull + ": " + text}
}
