// Package model defines what all model providers share: messages, requests, streamed replies,
// errors, usage, and the interface that adapters implement. The adapters are in subpackages:
// anthropic, gemini, openai (for OpenAI and everything that uses its protocol), and scripted, which
// replays recorded turns. Package modeltest has the conformance suite and fake HTTP servers of the
// providers.
//
// A reply is a stream. Deltas are for display. The done chunk carries the whole message, and only
// that message is kept:
//
//	for c, err := range m.Stream(ctx, model.Request{System: "Be brief.", Messages: history, Tools: tools}) {
//		if err != nil {
//			return err // *model.Error, with a code
//		}
//		switch c.Kind {
//		case model.ChunkText:
//			fmt.Print(c.Text)
//		case model.ChunkDone:
//			history = append(history, *c.Message)
//		}
//	}
//
// Adapters never retry. The caller does, using Error.Retries and Backoff, so that each try is
// recorded. Parts that a provider wants back unchanged (signed reasoning, encrypted blocks, unknown
// fields) are kept as Opaque and are sent only to the provider that created them.
//
// Everything that comes out of a Model is untrusted input.
package model
