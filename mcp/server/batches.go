package server

import (
	"bytes"
	"encoding/json"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// batches are the batches of requests over stdio that are not answered yet. The protocol library gets
// their messages one by one, because it ends the session if a batch has a notification or the ID of
// an open request.
type batches struct {
	mu   sync.Mutex
	open map[jsonrpc.ID]*batch
}

type batch struct {
	left    int // requests without an answer
	answers [][]byte
}

// begin notes the requests of a line. It returns false if an open batch has one of the IDs.
func (b *batches) begin(ids []jsonrpc.ID, batched bool) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, id := range ids {
		if b.open[id] != nil {
			return false
		}
	}
	if b.open == nil {
		b.open = map[jsonrpc.ID]*batch{}
	}
	for one := (&batch{left: len(ids)}); batched && len(ids) > 0; ids = ids[1:] {
		b.open[ids[0]] = one
	}
	return true
}

// answer takes the answer to a request of a batch, and returns the line to write once the batch is
// complete. It returns false if the request is not of a batch.
func (b *batches) answer(r *jsonrpc.Response) (line []byte, ok bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	one := b.open[r.ID]
	if one == nil {
		return nil, false, nil
	}
	text, err := jsonrpc.EncodeMessage(r)
	if err != nil {
		return nil, true, err
	}
	delete(b.open, r.ID)
	one.answers = append(one.answers, text)
	if one.left--; one.left > 0 {
		return nil, true, nil
	}
	return append(append([]byte("["), bytes.Join(one.answers, []byte(","))...), "]\n"...), true, nil
}

// message is what a line contains.
type message struct {
	parts   []json.RawMessage
	calls   []jsonrpc.ID
	batched bool
}

// lines returns the messages, each as a line.
func (m *message) lines(line []byte) (out [][]byte) {
	if !m.batched {
		return [][]byte{line}
	}
	for _, p := range m.parts {
		out = append(out, append(bytes.Clone(p), '\n'))
	}
	return out
}
